"""Where a node with routes or a switch in `next` leads: decided by its visit, before it commits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.expressions.errors import ExpressionFailed
from sleipnir.graphs.expressions.expression import Expression
from sleipnir.graphs.expressions.operators import type_name
from sleipnir.graphs.expressions.parser import parse
from sleipnir.graphs.schema import Route, Switch, distinct
from sleipnir.graphs.state import encode
from sleipnir.records import dataclass

# Characters of a value, and of an expression, that a message shows.
_VALUE_SHOWN = 60
_EXPRESSION_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Decision:
    """The route that was taken; `index` counts from 1, a switch's default is its last."""

    targets: tuple[str, ...]
    index: int
    label: str


def decide(
    node_id: str, way_on: Switch | list[Route], names: Mapping[str, Any], visit: int
) -> Decision:
    """Return the first route that is open and applies, or what the switch's value leads to.

    Args:
        names: the state after the node's own writes, and the scoped names.
        visit: the number of this visit of the node in its run, from 1.

    Raises:
        NodeFailed: R024 for a condition or switch without a usable value, R002 if no route applies.
    """
    if isinstance(way_on, Switch):
        return _switched(node_id, way_on, names)
    for index, route in enumerate(way_on, 1):
        if route.max is not None and visit > route.max:
            continue
        if route.when is None or _holds(node_id, index, route.when, names):
            return Decision(distinct(route.to), index, route.label)
    raise NodeFailed("R002", f"no route applies: {_conditions(way_on, names, visit)}")


def _holds(node_id: str, index: int, when: str, names: Mapping[str, Any]) -> bool:
    where = f"next of node '{node_id}', route {index} ({_cut(when, _EXPRESSION_SHOWN)})"
    try:
        value = parse(when).evaluate(names)
    except ExpressionFailed as failure:
        raise NodeFailed("R024", f"{where}: {failure}") from failure
    if not isinstance(value, bool):
        raise NodeFailed("R024", f"{where}: {type_name(value)}")
    return value


def _switched(node_id: str, switch: Switch, names: Mapping[str, Any]) -> Decision:
    where = f"next of node '{node_id}', switch ({_cut(switch.switch, _EXPRESSION_SHOWN)})"
    try:
        value = parse(switch.switch).evaluate(names)
    except ExpressionFailed as failure:
        raise NodeFailed("R024", f"{where}: {failure}") from failure
    if isinstance(value, list | dict):
        raise NodeFailed("R024", f"{where}: {type_name(value)}")
    text = value if isinstance(value, str) else encode(value)
    for index, way in enumerate(switch.ways(), 1):
        is_default = way.field == ("next", "default")
        if is_default or (value is not None and way.label == text):
            return Decision(distinct(way.to), index, way.label)
    shown = _cut(encode(value), _VALUE_SHOWN)
    raise NodeFailed("R002", f"no route applies: switch ({switch.switch}) is {shown}")


def _conditions(routes: list[Route], names: Mapping[str, Any], visit: int) -> str:
    """Say of each route why it was not taken: the values in its condition, or that it is closed."""
    told = []
    for route in routes:
        why = (
            f"closed: max {route.max}"
            if route.max is not None and visit > route.max
            else _values(parse(route.when or "true"), names)
        )
        told.append(f"{_cut(route.label, _EXPRESSION_SHOWN)}" + (f" ({why})" if why else ""))
    return "; ".join(told)


def _values(condition: Expression, names: Mapping[str, Any]) -> str:
    values = condition.values_of_paths(names)
    return ", ".join(
        f"{path.text} = {_cut(encode(values[path.text]), _VALUE_SHOWN)}"
        if path.text in values
        else f"{path.text} is not set"
        for path in condition.paths
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
