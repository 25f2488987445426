"""Shared by executors: `state_updates`, merged replies, and fields that must render."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sleipnir.graphs.document.finding import printable
from sleipnir.graphs.errors import MissingReference, NodeFailed
from sleipnir.graphs.schema import MapNode
from sleipnir.graphs.state import PROMPT_KEY
from sleipnir.graphs.template import (
    LONGEST_TEXT,
    evaluate_lenient,
    evaluate_strict,
    render_lenient,
    render_strict,
)
from sleipnir.worker.visit.context import Visit

# Of the keys of a reply that are left out.
_KEYS_SHOWN = 10
_KEY_CHARACTERS = 100


def apply_updates(
    state_updates: Mapping[str, str] | None,
    state: Mapping[str, Any],
    writes: dict[str, Any],
    scoped: Mapping[str, Any],
    *,
    stringify: bool,
    limit: int = LONGEST_TEXT,
) -> None:
    """Evaluate the templates in file order, adding each result to `writes`.

    References are looked up in the `scoped` variables first, then in what the node has written so
    far, earlier entries included, then in the state.

    Raises:
        TextTooLong: a template renders to more than `limit` characters.
    """
    evaluate = render_lenient if stringify else evaluate_lenient
    for key, template in (state_updates or {}).items():
        writes[key] = evaluate(template, scoped, writes, state, limit=limit)


def update_state(
    visit: Visit[Any], writes: dict[str, Any], scoped: Mapping[str, Any] | None = None
) -> None:
    """Add the results of the node's `state_updates` to its writes, by the graph's settings.

    Raises:
        TextTooLong: a value is larger than a state may hold.
    """
    apply_updates(
        visit.node.state_updates,
        visit.state,
        writes,
        scoped or {},
        stringify=visit.graph.settings.stringify_state_updates,
        limit=visit.limits.value_bytes,
    )


def merged_reply(visit: Visit[Any], reply: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return what a reply that fits the node's `output_schema` writes, and warnings.

    The keys of an object are written. Those that the schema does not declare are left out if
    anything else owns them, so that nobody who talks a model into more keys can change what a
    caller or another node says.
    """
    if not isinstance(reply, dict):
        return {}, ()
    if not isinstance(visit.node.output_schema.get("properties"), dict):
        return dict(reply), ()
    undeclared = reply.keys() - visit.node.schema_keys()
    left_out = undeclared & _owned_keys(visit) if undeclared else frozenset[str]()
    writes = {key: value for key, value in reply.items() if key not in left_out}
    return writes, tuple(_warnings(visit, [key for key in reply if key in left_out]))


def _owned_keys(visit: Visit[Any]) -> set[str]:
    """Return the state keys that belong to the run's caller, its graph or its other nodes."""
    graph = visit.graph
    owned = {PROMPT_KEY, *visit.context.seeds, *graph.initial_state, *graph.reducers}
    owned |= {variable.name for variable in graph.variables}
    if visit.item_index is not None:
        map_node = graph.nodes[visit.visit_id.node]
        assert isinstance(map_node, MapNode)
        owned.add(map_node.item_name)
    for node_id, node in graph.nodes.items():
        if node_id != visit.node_id:
            owned |= node.written_keys()
    return owned


def _warnings(visit: Visit[Any], left_out: list[str]) -> Iterator[str]:
    for key in left_out[:_KEYS_SHOWN]:
        name = visit.mask(printable(key))[:_KEY_CHARACTERS]
        yield f"[{visit.node_id}] undeclared key '{name}' of the reply left out"
    if len(left_out) > _KEYS_SHOWN:
        more = len(left_out) - _KEYS_SHOWN
        yield f"[{visit.node_id}] {more} more undeclared keys of the reply left out"


def require_rendered(template: str, field: str, visit: Visit[Any]) -> str:
    """Render a field in which every reference must resolve.

    Raises:
        NodeFailed: R001, naming all missing references.
        TextTooLong: it is longer than a value may be.
    """
    with _naming(field):
        return render_strict(template, visit.state, limit=visit.limits.value_bytes)


def require_value(template: str, field: str, visit: Visit[Any]) -> Any:
    """Return the referenced value itself if a field is a single reference; else as above."""
    with _naming(field):
        return evaluate_strict(template, visit.state, limit=visit.limits.value_bytes)


@contextmanager
def _naming(field: str) -> Iterator[None]:
    try:
        yield
    except MissingReference as error:
        raise NodeFailed("R001", f"{field}: {error}") from error
