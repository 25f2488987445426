"""Compares a run with the expectations of a case."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import unified_diff
from itertools import takewhile
from typing import Any

from sleipnir.graphs.document.finding import cut
from sleipnir.graphs.state import encode, same_json
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import Failure
from sleipnir.scheduler.schema_checks import DEFAULT_LIMIT_S, pool
from sleipnir.scheduler.schema_checks.checking import SchemaInvalid, Unchecked
from sleipnir.scheduler.testing.cases import Expected, OutputFields, Step

_SHOWN = 200
# Bounds on the lines, and characters of a line, that are compared with each other: comparing takes
# more than linear time, and one side is arbitrary output of a run.
_COMPARED_LINES = 400
_COMPARED_CHARS = 400


@dataclass(frozen=True, slots=True)
class Course:
    """What happened in a run."""

    nodes: Collection[str]  # all nodes of the agent
    status: str
    failure: Failure | None
    route: Sequence[Sequence[str]]  # the nodes of each step
    visits: Mapping[str, int]
    state: Mapping[str, Any]
    output: str | None
    cost_usd: float | None  # None: unknown


def problems(
    expected: Expected, course: Course, check_limit_s: float = DEFAULT_LIMIT_S
) -> Iterator[str]:
    """Yield what is not as expected; the first line of each text names the expectation.

    A pattern or schema of the case may take `check_limit_s` of CPU time.
    """
    yield from _status(expected, course)
    if expected.route is not None:
        yield from _differing("route", _steps(expected.route), _steps(course.route))
    for node, count in (expected.visits or {}).items():
        if node not in course.nodes:
            yield f"visits of '{node}': there is no such node"
        elif (found := course.visits.get(node, 0)) != count:
            yield f"visits of '{node}': expected {count}, got {found}"
    if expected.state is not None:
        yield from _part("state", expected.state, course.state)
    try:
        yield from _output(expected.output, course.output, check_limit_s)
    except (Unchecked, SchemaInvalid) as error:
        yield f"output: {error}"
    if expected.cost is not None:
        yield from _cost(expected.cost.max_usd, course.cost_usd)


def _status(expected: Expected, course: Course) -> Iterator[str]:
    wanted = expected.status or ("failed" if expected.error else "succeeded")
    failure = course.failure
    reason = ""
    if failure is not None:
        place = f" at '{failure.node}'" if failure.node else ""
        reason = f" ({failure.code}{place}: {failure.message})"
    if course.status != wanted:
        yield f"status: expected {wanted}, got {course.status}{reason}"
    elif expected.error and (failure is None or failure.code != expected.error):
        yield f"error: expected {expected.error}, got {reason.strip(' ()') or 'none'}"


def _steps(route: Sequence[Step] | Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each step, with its nodes sorted."""
    return [step if isinstance(step, str) else ", ".join(sorted(step)) for step in route]


def _differing(what: str, expected: Sequence[str], got: Sequence[str]) -> Iterator[str]:
    if expected != got:
        same = _alike(expected, got)
        column = _alike(*(lines[same] if same < len(lines) else "" for lines in (expected, got)))
        first, left = max(0, same - 3), max(0, column - _COMPARED_CHARS // 2)
        wanted, found = (
            [line[left : left + _COMPARED_CHARS] for line in lines[first : same + _COMPARED_LINES]]
            for lines in (expected, got)
        )
        lines = list(unified_diff(wanted, found, n=_COMPARED_LINES, lineterm=""))[3:]
        yield "\n".join((f"{what}: - expected, + got", *(f"{at[0]} {at[1:]}" for at in lines)))


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the common beginning."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _part(place: str, expected: Any, got: Any) -> Iterator[str]:
    """Yield differences; mappings may have more keys than expected, all else must be equal."""
    if isinstance(expected, dict) and isinstance(got, Mapping):
        for key, value in expected.items():
            if key in got:
                yield from _part(f"{place}.{key}", value, got[key])
            else:
                yield f"{place}.{key}: expected {_shown(value)}, but it is missing"
    elif not same_json(expected, got):
        yield f"{place}: expected {_shown(expected)}, got {_shown(got)}"


def _output(
    expected: str | OutputFields | None, got: str | None, check_limit_s: float
) -> Iterator[str]:
    if expected is None:
        return
    if got is None:
        yield "output: none"
    elif isinstance(expected, str):
        # YAML blocks end with a line break, unlike most outputs.
        lines, found = expected.rstrip("\n").split("\n"), got.rstrip("\n").split("\n")
        yield from _differing("output", lines, found)
    else:
        yield from _likeness(expected, got, check_limit_s)


def _likeness(expected: OutputFields, got: str, check_limit_s: float) -> Iterator[str]:
    contains = expected.contains or []
    for text in [contains] if isinstance(contains, str) else contains:
        if text not in got:
            yield f"output: expected it to contain {_shown(text)}, got {_shown(got)}"
    wanted = expected.matches
    if wanted is not None and not pool.matches(wanted, got, check_limit_s):
        yield f"output: expected it to match {wanted}, got {_shown(got)}"
    if expected.json_schema is not None:
        yield from _conformity(expected.json_schema, got, check_limit_s)


def _conformity(schema: dict[str, Any], got: str, check_limit_s: float) -> Iterator[str]:
    try:
        value = json.loads(got)
    except ValueError as error:
        yield f"output: expected JSON, got {_shown(got)} ({error})"
        return
    for path, message in pool.misfits(schema, value, check_limit_s):
        yield f"output{path[1:]}: {message}"


def _cost(limit_usd: float, cost_usd: float | None) -> Iterator[str]:
    if cost_usd is None:
        yield f"cost: expected at most {limit_usd:g} USD, and a model's price is not known"
    elif cost_usd > limit_usd:
        yield f"cost: expected at most {limit_usd:g} USD, got {cost_usd:g}"


def _shown(value: Any) -> str:
    return cut(encode(value), _SHOWN)
