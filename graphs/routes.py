"""Where a node with routes or a switch in `next` leads: decided by its visit, before it commits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.expressions.errors import ExpressionFailed
from sleipnir.graphs.expressions.expression import VALUE_BYTES, Expression
from sleipnir.graphs.expressions.operators import type_name
from sleipnir.graphs.expressions.parser import parse
from sleipnir.graphs.schema import Route, Switch, distinct
from sleipnir.graphs.state import encode
from sleipnir.records import dataclass

Mask: TypeAlias = Callable[[str], str]

# Characters of a value, and of an expression, that a message shows.
_VALUE_SHOWN = 60
# So many are masked first: of a secret that begins among those shown, not even the beginning is.
_VALUE_READ = 4_096
_EXPRESSION_SHOWN = 80
_parts_of_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).iterencode


@dataclass(frozen=True, slots=True)
class Decision:
    """The route that was taken; `index` counts from 1, a switch's default is its last."""

    targets: tuple[str, ...]
    index: int
    label: str


def decide(
    node_id: str,
    way_on: Switch | list[Route],
    names: Mapping[str, Any],
    visit: int,
    *,
    value_bytes: int = VALUE_BYTES,
    mask: Mask = str,
) -> Decision:
    """Return the first route that is open and applies, or what the switch's value leads to.

    Args:
        names: the state after the node's own writes, and the scoped names.
        visit: the number of this visit of the node in its run, from 1.
        value_bytes: the most that a text or list may have that a condition makes.
        mask: what of a value's text a message may show.

    Raises:
        NodeFailed: R024 for a condition or switch without a usable value, R002 if no route applies.
    """
    if isinstance(way_on, Switch):
        return _switched(node_id, way_on, names, value_bytes, mask)
    for index, route in enumerate(way_on, 1):
        if route.max is not None and visit > route.max:
            continue
        if route.when is None or _holds(node_id, index, route.when, names, value_bytes):
            return Decision(distinct(route.to), index, route.label)
    raise NodeFailed("R002", f"no route applies: {_conditions(way_on, names, visit, mask)}")


def _holds(node_id: str, index: int, when: str, names: Mapping[str, Any], value_bytes: int) -> bool:
    where = f"next of node '{node_id}', route {index} ({_cut(when, _EXPRESSION_SHOWN)})"
    try:
        value = parse(when).evaluate(names, value_bytes=value_bytes)
    except ExpressionFailed as failure:
        raise NodeFailed("R024", f"{where}: {failure}") from failure
    if not isinstance(value, bool):
        raise NodeFailed("R024", f"{where}: {type_name(value)}")
    return value


def _switched(
    node_id: str, switch: Switch, names: Mapping[str, Any], value_bytes: int, mask: Mask
) -> Decision:
    shown = _cut(switch.switch, _EXPRESSION_SHOWN)
    where = f"next of node '{node_id}', switch ({shown})"
    try:
        value = parse(switch.switch).evaluate(names, value_bytes=value_bytes)
    except ExpressionFailed as failure:
        raise NodeFailed("R024", f"{where}: {failure}") from failure
    if isinstance(value, list | dict):
        raise NodeFailed("R024", f"{where}: {type_name(value)}")
    text = value if isinstance(value, str) else encode(value)
    for index, way in enumerate(switch.ways(), 1):
        is_default = way.field == ("next", "default")
        if is_default or (value is not None and way.label == text):
            return Decision(distinct(way.to), index, way.label)
    raise NodeFailed("R002", f"no route applies: switch ({shown}) is {_shown(value, mask)}")


def _conditions(routes: list[Route], names: Mapping[str, Any], visit: int, mask: Mask) -> str:
    """Say of each route why it was not taken: the values in its condition, or that it is closed."""
    told = []
    for route in routes:
        why = (
            f"closed: max {route.max}"
            if route.max is not None and visit > route.max
            else _values(parse(route.when or "true"), names, mask)
        )
        told.append(f"{_cut(route.label, _EXPRESSION_SHOWN)}" + (f" ({why})" if why else ""))
    return "; ".join(told)


def _values(condition: Expression, names: Mapping[str, Any], mask: Mask) -> str:
    values = condition.values_of_paths(names)
    return ", ".join(
        f"{path.text} = {_shown(values[path.text], mask)}"
        if path.text in values
        else f"{path.text} is not set"
        for path in condition.paths
    )


def _shown(value: Any, mask: Mask) -> str:
    """Return the beginning of a value's JSON, without encoding the rest of a large one."""
    if isinstance(value, str):
        return _cut(mask(encode(value[:_VALUE_READ])), _VALUE_SHOWN)
    text = ""
    for part in _parts_of_json(value):
        text += part[:_VALUE_READ]
        if len(text) > _VALUE_READ:
            break
    return _cut(mask(text), _VALUE_SHOWN)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
