"""The final text of a run while its model says it."""

from __future__ import annotations

from collections.abc import Collection

from sleipnir.graphs.normal_agent import is_normal
from sleipnir.graphs.schema import EndNode, Graph, LlmNode
from sleipnir.scheduler.runs.events import Event, ModelCalled, TextStreamed

_OUTPUT = "{{output}}"
_BETWEEN = "\n\n"


def spoken_nodes(graph: Graph) -> frozenset[str]:
    """Return the nodes whose replies are the final text of a run, word by word.

    Those are the only node of a normal agent, and `llm` nodes that go straight on to an end that
    outputs their reply and nothing else.
    """
    if is_normal(graph):
        return frozenset({graph.start})
    return frozenset(key for key, node in graph.nodes_of(LlmNode) if _ends_with(graph, node))


def _ends_with(graph: Graph, node: LlmNode) -> bool:
    (target, *others) = node.targets or ("",)
    end = graph.nodes.get(target)
    if others or node.conditional_next or node.output_schema or not isinstance(end, EndNode):
        return False
    if end.state_updates or end.value is not None:
        return False
    said = (key for key, value in (node.state_updates or {}).items() if value == _OUTPUT)
    return any(end.output == f"{{{{{key}}}}}" for key in said)


class SpokenText:
    """The text of a run's model so far: its replies, with an empty line between them.

    Which reply is the last is known only when the run has ended: what a model says before it calls
    a function, and a reply that broke off, are part of a stream.

    Args:
        nodes: those whose replies count.
    """

    def __init__(self, nodes: Collection[str]) -> None:
        self._nodes = nodes
        self._reply = ""  # the current one
        self._is_over = False  # another one was asked for
        self._has_spoken = False

    def add(self, event: Event) -> str:
        """Return what an event adds."""
        if not isinstance(event, ModelCalled | TextStreamed) or event.node not in self._nodes:
            return ""
        if isinstance(event, ModelCalled):
            self._is_over = True
            return ""
        if self._is_over:
            self._reply, self._is_over = "", False
        gap = "" if self._reply else self._gap()
        self._reply += event.text
        self._has_spoken = True
        return gap + event.text

    def rest_of(self, text: str) -> str:
        """Return what is missing of the run's final text."""
        said = self._reply.strip()
        if said and text.strip().startswith(said):
            return text.strip()[len(said) :]
        return f"{self._gap()}{text}" if text else ""

    def _gap(self) -> str:
        return _BETWEEN if self._has_spoken else ""
