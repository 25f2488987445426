"""The knowledge bases that an agent describes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sleipnir.graphs.document.loader import Agent
from sleipnir.graphs.knowledge.pointer import NORMAL_AGENT_NODE
from sleipnir.graphs.schema import RagNode
from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class DescribedBase:
    """One of them; a normal agent has one at most."""

    node_id: str  # what its pointer is named after
    documents: Sequence[str]
    node: RagNode | None  # None: that of a normal agent

    @property
    def batch_size(self) -> int | None:
        """Texts that are embedded in one call; None: what the engine takes."""
        return self.node.batch_size if self.node is not None else None


def bases_of(agent: Agent) -> Iterator[DescribedBase]:
    """All of an agent, in the order of its file; none of one whose file cannot be used."""
    if agent.graph is not None:
        for node_id, node in agent.graph.nodes_of(RagNode):
            yield DescribedBase(node_id, node.documents, node)
    elif agent.normal is not None and agent.normal.documents:
        yield DescribedBase(NORMAL_AGENT_NODE, agent.normal.documents, None)
