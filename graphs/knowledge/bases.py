"""The knowledge bases that an agent describes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sleipnir.graphs.document.loader import Agent
from sleipnir.graphs.knowledge.pointer import NORMAL_AGENT_NODE
from sleipnir.graphs.schema import RagNode
from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class DescribedBase:
    """A knowledge base that an agent describes; a normal agent has at most one."""

    node_id: str  # names its pointer
    documents: Sequence[str]
    node: RagNode | None  # None for a normal agent's

    @property
    def top_k(self) -> int | None:
        """Chunks that a search gives; None: what the knowledge base was built with."""
        return self.node.top_k if self.node is not None else None

    @property
    def batch_size(self) -> int | None:
        """Texts embedded in one call; None: the engine's default."""
        return self.node.batch_size if self.node is not None else None


def bases_of(agent: Agent) -> Iterator[DescribedBase]:
    """Yield an agent's knowledge bases, in the order of its file; none if the file is unusable."""
    if agent.graph is not None:
        for node_id, node in agent.graph.nodes_of(RagNode):
            yield DescribedBase(node_id, node.documents, node)
    elif agent.normal is not None and agent.normal.documents:
        yield DescribedBase(NORMAL_AGENT_NODE, agent.normal.documents, None)
