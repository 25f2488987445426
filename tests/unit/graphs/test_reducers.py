"""The eight reducers: types in, types out, and numbers that stay exact."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.reducers import ABSENT, json_type, reduce_value
from sleipnir.graphs.state import encode, same_json

BIG = 2**53 + 1


@pytest.mark.parametrize(
    ("name", "current", "incoming", "result"),
    [
        ("append", [1], 2, [1, 2]),
        ("append", [], [2], [[2]]),
        ("append", [1], None, [1, None]),
        ("extend", [1], [2, [3]], [1, 2, [3]]),
        ("extend", [1], [], [1]),
        ("concat", "a", "b", "a\nb"),
        ("concat", "", "b", "b"),
        ("concat", "a", "", "a\n"),
        ("sum", BIG, 1, BIG + 1),
        ("sum", 1, -2.5, -1.5),
        ("max", 2, 10, 10),
        ("max", BIG, BIG - 1, BIG),
        ("min", 2, -1.5, -1.5),
        ("merge", {"a": 1, "b": {"x": 1}}, {"b": {"y": 2}}, {"a": 1, "b": {"y": 2}}),
        ("overwrite", [1], None, None),
        ("overwrite", None, 5, 5),
    ],
)
def test_a_write_meets_the_current_value(
    name: str, current: Any, incoming: Any, result: Any
) -> None:
    assert same_json(reduce_value(name, "k", current, incoming), result)


@pytest.mark.parametrize(
    ("name", "incoming", "result"),
    [
        ("append", 1, [1]),
        ("append", [1], [[1]]),
        ("extend", [1], [1]),
        ("concat", "a", "a"),
        ("sum", 5, 5),
        ("max", 5, 5),
        ("min", 5, 5),
        ("merge", {"a": 1}, {"a": 1}),
        ("overwrite", None, None),
    ],
)
def test_the_first_write_of_an_absent_key(name: str, incoming: Any, result: Any) -> None:
    assert same_json(reduce_value(name, "k", ABSENT, incoming), result)


@pytest.mark.parametrize(
    ("name", "current", "incoming", "side"),
    [
        ("append", "a", 1, "current must be list, got string"),
        ("append", None, 1, "current must be list, got null"),
        ("extend", [1], "ab", "incoming must be list, got string"),
        ("extend", {}, [1], "current must be list, got object"),
        ("concat", "a", 1, "incoming must be string, got number"),
        ("concat", None, "a", "current must be string, got null"),
        ("sum", True, 1, "current must be number, got boolean"),
        ("sum", 1, False, "incoming must be number, got boolean"),
        ("max", 1, "2", "incoming must be number, got string"),
        ("min", [], 1, "current must be number, got list"),
        ("merge", {}, [], "incoming must be object, got list"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(
    name: str, current: Any, incoming: Any, side: str
) -> None:
    with pytest.raises(NodeFailed) as raised:
        reduce_value(name, "k", current, incoming)

    assert raised.value.code == "R009"
    assert raised.value.message == f"reducer '{name}' on key 'k': {side}"


@pytest.mark.parametrize(
    ("name", "current", "incoming", "text"),
    [
        ("sum", 1.5, 1.5, "3"),
        ("sum", ABSENT, 2.0, "2"),
        ("max", 1, 2.0, "2"),
        ("min", ABSENT, -0.0, "0"),
        ("sum", 0.1, 0.2, "0.30000000000000004"),
        ("sum", 2.0**63, 0, "9.223372036854776e+18"),
        ("sum", 2**63, 0, "9223372036854775808"),
    ],
)
def test_whole_results_are_integers(name: str, current: Any, incoming: Any, text: str) -> None:
    assert encode(reduce_value(name, "k", current, incoming)) == text


@pytest.mark.parametrize(
    ("current", "incoming"), [(1.7e308, 1.7e308), (10**400, 0.5), (-1e308, -1e308)]
)
def test_a_result_that_is_not_finite_fails(current: Any, incoming: Any) -> None:
    with pytest.raises(NodeFailed, match="not finite") as raised:
        reduce_value("sum", "k", current, incoming)

    assert raised.value.code == "R009"


def test_nothing_given_is_changed() -> None:
    current, incoming = [1], {"a": 1}

    reduce_value("append", "k", current, 2)
    reduce_value("merge", "k", incoming, {"b": 2})

    assert (current, incoming) == ([1], {"a": 1})


@given(st.integers(), st.integers())
def test_integers_are_computed_exactly(a: int, b: int) -> None:
    assert reduce_value("sum", "k", a, b) == a + b
    assert reduce_value("max", "k", a, b) == max(a, b)


@given(st.lists(st.integers()), st.lists(st.integers()), st.lists(st.integers()))
def test_extending_twice_is_extending_once_by_both(
    a: list[int], b: list[int], c: list[int]
) -> None:
    once = reduce_value("extend", "k", a, [*b, *c])

    assert reduce_value("extend", "k", reduce_value("extend", "k", a, b), c) == once


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"),
        (True, "boolean"),
        (1, "number"),
        (1.0, "number"),
        ("", "string"),
        ([], "list"),
        ({}, "object"),
    ],
)
def test_types_are_named_as_json_does(value: Any, name: str) -> None:
    assert json_type(value) == name
