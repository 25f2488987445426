"""Patterns and schemas of others: what fits, and what is ended."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from sleipnir.scheduler.schema_checks import pool
from sleipnir.scheduler.schema_checks.checking import SchemaInvalid, Unchecked
from sleipnir.scheduler.schema_checks.pool import TookTooLong, matches, misfits
from tests.support.wait import wait_until

LIMIT_S = 0.2
HOPELESS = "^(a+)+$"
BAIT = "a" * 60 + "!"


def laughs(levels: int) -> dict[str, Any]:
    """A schema whose every level asks twice for the next."""
    definitions = {
        f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(levels)
    } | {f"l{levels}": {"type": "string"}}
    return {"$ref": "#/$defs/l0", "$defs": definitions}


@pytest.mark.parametrize(
    ("schema", "value", "found"),
    [
        ({"type": "integer"}, 1, []),
        ({"type": "integer"}, "x", [("$", "'x' is not of type 'integer'")]),
        ({"items": {"pattern": "^a"}}, ["a", "b"], [("$[1]", "'b' does not match '^a'")]),
        (
            {"$ref": "#/$defs/n", "$defs": {"n": {"minimum": 2}}},
            1,
            [("$", "1 is less than the minimum of 2")],
        ),
        ({"uniqueItems": True}, [1, 1], [("$", "[1, 1] has non-unique elements")]),
        ({"pattern": "^ä\ud800"}, "ä\ud800", []),
    ],
)
def test_what_does_not_fit_is_told_with_its_path(
    schema: dict[str, Any], value: Any, found: list[tuple[str, str]]
) -> None:
    assert misfits(schema, value) == found


@pytest.mark.parametrize(
    ("schema", "value", "busy_with"),
    [
        (
            {"properties": {"name": {"pattern": HOPELESS}}},
            {"name": BAIT},
            rf": pattern '{HOPELESS}' at $.properties.name",
        ),
        (
            {"patternProperties": {HOPELESS: {"type": "string"}}},
            {BAIT: "x"},
            rf": pattern '{HOPELESS}' at $",
        ),
        (laughs(40), "x", ""),
        ({"uniqueItems": True}, [{"a": n} for n in range(20_000)], ""),
    ],
    ids=["pattern", "names", "references", "items"],
)
def test_a_check_without_end_is_ended(schema: dict[str, Any], value: Any, busy_with: str) -> None:
    with pytest.raises(TookTooLong) as raised:
        misfits(schema, value, LIMIT_S)

    assert str(raised.value) == f"could not be checked within 0.2 s{busy_with}"


def test_a_pattern_without_end_is_ended_and_others_are_answered() -> None:
    assert matches("b.d", "abcd", LIMIT_S * 10)
    with pytest.raises(TookTooLong, match="pattern '"):
        matches(HOPELESS, BAIT, LIMIT_S)
    assert not matches("b.d", "xyz", LIMIT_S * 10)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "objec"},
        {"pattern": "("},
        {"type": "objec", "pattern": "x"},
        {"maximum": float("inf")},
    ],
)
def test_a_schema_that_is_none_is_told(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaInvalid):
        misfits(schema, "x")


def test_a_circle_of_references_cannot_be_checked() -> None:
    with pytest.raises(Unchecked, match="recursion"):
        misfits({"$ref": "#"}, 1)


@pytest.mark.parametrize("dialect", [["a"], 5])
def test_what_a_library_stumbles_over_cannot_be_checked(dialect: Any) -> None:
    with pytest.raises(Unchecked):
        misfits({"$schema": dialect}, 1)


def test_a_process_that_was_killed_is_replaced() -> None:
    assert matches("b.d", "abcd")
    for helper in pool._POOL._idle:
        os.kill(helper.pid, signal.SIGKILL)
        wait_until(lambda pid=helper.pid: is_dead(pid), "it is gone", 60)

    assert matches("b.d", "abcd")


def is_dead(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
