"""Shared by executors: `state_updates`, and fields that must render."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sleipnir.graphs.errors import MissingReference, NodeFailed
from sleipnir.graphs.template import LONGEST_TEXT, evaluate_lenient, render_lenient, render_strict
from sleipnir.worker.visit.context import Visit


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


def require_rendered(template: str, field: str, visit: Visit[Any]) -> str:
    """Render a field in which every reference must resolve.

    Raises:
        NodeFailed: R001, naming all missing references.
        TextTooLong: it is longer than a value may be.
    """
    try:
        return render_strict(template, visit.state, limit=visit.limits.value_bytes)
    except MissingReference as error:
        raise NodeFailed("R001", f"{field}: {error}") from error
