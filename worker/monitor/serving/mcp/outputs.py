"""What the result of an agent is as JSON, as far as its files say so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sleipnir.graphs.chains import chain_of
from sleipnir.graphs.document.loader import Agent
from sleipnir.graphs.schema import EndNode, Graph, MapNode, Node
from sleipnir.graphs.state import encode
from sleipnir.graphs.template import references
from sleipnir.graphs.validator.scripts import key_words

RUN_ID: Final = "run_id"
# What a call returns of a run that goes on or asks.
_OPEN: Final = {
    "type": "object",
    "properties": {RUN_ID: {"type": "string"}, "status": {"enum": ["running", "waiting"]}},
    "required": [RUN_ID, "status"],
}
_WHOLE_REPLY: Final = "{{output}}"


def output_schema(agent: Agent) -> dict[str, Any] | None:
    """Return the schema of what calls of an agent return; None if it is not known.

    It is if the `value` of each `end` is an object that the `output_schema` of a node describes,
    and nothing else sets it.
    """
    graph = agent.graph
    if graph is None:
        return None
    found = [_of_end(agent, graph, end) for _, end in graph.nodes_of(EndNode)]
    schemas = [schema for schema in found if schema is not None]
    if not found or len(schemas) < len(found):
        return None
    distinct = [schema for at, schema in enumerate(schemas) if schema not in schemas[:at]]
    return {"type": "object", "anyOf": [*distinct, _OPEN]}


def _of_end(agent: Agent, graph: Graph, end: EndNode) -> dict[str, Any] | None:
    key = _only_key(end.value or "")
    if key is None or key in (end.state_updates or {}) or key in graph.initial_state:
        return None
    writers = [name for name, node in graph.nodes.items() if key in node.written_keys()]
    words = key_words(agent.directory, graph)
    if len(writers) != 1 or words is None or key in words.all:
        return None
    if any(writers[0] in chain_of(graph, each) for _, each in graph.nodes_of(MapNode)):
        return None
    schema = _written_as(graph.nodes[writers[0]], key)
    # References would lead elsewhere, as the schema becomes a part of another one.
    is_usable = isinstance(schema, Mapping) and schema.get("type") == "object"
    return dict(schema) if is_usable and '"$ref"' not in encode(schema) else None


def _only_key(template: str) -> str | None:
    """Return the key that a template is the value of; None if it is another one."""
    found = references(template)
    is_one = len(found) == 1 and template == f"{{{{{found[0].text}}}}}"
    return found[0].root if is_one and found[0].path and len(found[0].path) == 1 else None


def _written_as(node: Node, key: str) -> Any:
    """Return the schema of what a node writes into a key, if it has one."""
    schema = getattr(node, "output_schema", None)
    text = (getattr(node, "state_updates", None) or {}).get(key)
    if schema is None or text is not None:
        return schema if text == _WHOLE_REPLY else None
    return schema["properties"][key]
