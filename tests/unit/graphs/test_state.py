"""State as JSON texts: written compactly, decoded late, compared by value and type."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleipnir.graphs.state import DEEPEST, Snapshot, decode, encode, same_json

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [1, 2]}, '{"b":1,"a":[1,2]}'),
        ("ключ", '"ключ"'),
        (2**60, "1152921504606846976"),
        (1.0, "1.0"),
        ([], "[]"),
        ("\ud800 я", '"\\ud800 \\u044f"'),
    ],
)
def test_values_are_written_compactly(value: Any, text: str) -> None:
    assert encode(value) == text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]])
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode(value)


@given(JSON)
def test_every_value_survives_its_text(value: Any) -> None:
    text = encode(value)

    assert same_json(json.loads(text), value)
    assert text.encode()


@given(JSON)
def test_what_is_written_can_be_read(value: Any) -> None:
    assert same_json(decode(encode(value)), value)


@pytest.mark.parametrize("brackets", ["[]", '{"":}'])
def test_a_text_is_read_as_deep_as_it_may_be_nested(brackets: str) -> None:
    start, end = brackets[:-1], brackets[-1]

    for depth in (1, DEEPEST):
        text = start * depth + "1" + end * depth
        assert encode(decode(text)) == text
    for depth in (DEEPEST + 1, 950, 100_000):
        with pytest.raises(ValueError, match=f"nested more than {DEEPEST} levels"):
            decode(start * depth + "1" + end * depth)
    flat = f"[{','.join(['[1]'] * 1_000)}]"
    assert encode(decode(flat)) == flat


@pytest.mark.parametrize("text", ["NaN", "[-Infinity]", "1e400", "-1e400"])
def test_numbers_that_json_cannot_hold_are_not_read(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid JSON number"):
        decode(text)


def test_integers_are_read_as_long_as_they_can_be_written() -> None:
    longest = "9" * 4_300

    assert encode(decode(f"[{longest},-{longest}]")) == f"[{longest},-{longest}]"
    with pytest.raises(ValueError, match="an integer of more than 4,300 digits"):
        decode(f"[{longest}9]")


@pytest.mark.parametrize("text", ["", "{", "5 6", "'a'"])
def test_what_is_not_json_is_not_read(text: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        decode(text)


def test_a_snapshot_decodes_only_what_is_looked_at() -> None:
    snapshot = Snapshot({"good": "[1]", "broken": "{"})

    assert snapshot["good"] == [1]
    assert "broken" in snapshot
    with pytest.raises(json.JSONDecodeError):
        snapshot["broken"]


def test_a_snapshot_is_a_mapping() -> None:
    snapshot = Snapshot.of({"a": 1, "z": None})

    assert dict(snapshot) == {"a": 1, "z": None}
    assert (len(snapshot), snapshot.get("gone", "-"), snapshot.text("z")) == (2, "-", "null")
    assert snapshot.text("gone") is None
    with pytest.raises(KeyError):
        snapshot["gone"]


def test_keys_laid_over_a_snapshot_hide_and_do_not_change_it() -> None:
    snapshot = Snapshot.of({"a": 1, "b": 2})

    extended = snapshot.extended({"a": "3", "c": "4"})

    assert dict(extended) == {"a": 3, "b": 2, "c": 4}
    assert dict(snapshot) == {"a": 1, "b": 2}


def test_the_whole_state_is_one_object_with_sorted_keys() -> None:
    assert Snapshot({"b": '{"y":1,"x":2}', 'a"': "1.0"}).to_json() == (
        '{"a\\"":1.0,"b":{"y":1,"x":2}}'
    )


@pytest.mark.parametrize(
    ("a", "b"), [(1, 1.0), (1, True), (0, False), ("1", 1), ([], {}), (None, False), ([1], [1.0])]
)
def test_values_of_different_types_differ(a: Any, b: Any) -> None:
    assert not same_json(a, b)
    assert not same_json({"k": [a]}, {"k": [b]})


def test_the_order_of_keys_does_not_matter_but_that_of_items_does() -> None:
    assert same_json({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert not same_json([1, 2], [2, 1])
    assert not same_json({"a": 1}, {"a": 1, "b": 2})
    assert not same_json([1], [1, 1])
