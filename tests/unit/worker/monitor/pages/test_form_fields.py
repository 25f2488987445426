"""Each key of an initial state is a field of the type of its value."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.worker.monitor.pages.form_fields import STATE as PREFIX
from sleipnir.worker.monitor.pages.form_fields import entered, state_fields

STATE: dict[str, Any] = {
    "initial_prompt": "hi",
    "source": "web",
    "letter": "Dear\nyou",
    "rows": 3,
    "share": 0.5,
    "strict": True,
    "words": ["sun", "moon"],
    "found": [],
    "nested": {"a": [1]},
    "nothing": None,
}


def test_the_kind_of_a_field_is_that_of_its_value() -> None:
    kinds = {each.key: each.kind for each in state_fields(STATE, {}, {})}

    assert kinds == {
        "source": "text",
        "letter": "long",
        "rows": "number",
        "share": "number",
        "strict": "switch",
        "words": "texts",
        "found": "json",
        "nested": "json",
        "nothing": "json",
    }


def test_what_is_not_changed_is_not_given() -> None:
    fields = state_fields(STATE, {}, {})
    texts = {each.name: each.value for each in fields}

    state, filled = entered(fields, texts)

    assert state == {}
    assert not any(each.is_changed or each.problem for each in filled)


def test_changed_values_have_the_types_of_the_defaults() -> None:
    texts = {
        "source": "",
        "rows": "4",
        "share": "1e-3",
        "strict": "false",
        "words": "sun\n\n sky \n",
        "found": '[{"<b>": 1}]',
    }

    given = {PREFIX + key: text for key, text in texts.items()}
    state, filled = entered(state_fields(STATE, {}, {}), given)

    assert state == {
        "source": "",
        "rows": 4,
        "share": 0.001,
        "strict": False,
        "words": ["sun", " sky "],
        "found": [{"<b>": 1}],
    }
    assert [each.key for each in filled if each.is_changed] == list(texts)


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("rows", "many", "not a number"),
        ("rows", "true", "not a number"),
        ("nested", "{", "not JSON"),
        ("nested", "", "not JSON"),
    ],
)
def test_a_field_says_what_is_wrong_with_it(key: str, text: str, said: str) -> None:
    state, filled = entered(state_fields(STATE, {}, {}), {PREFIX + key: text})

    (wrong,) = [each for each in filled if each.problem]
    assert (wrong.key, wrong.value, state) == (key, text, {})
    assert said in (wrong.problem or "")


def test_values_of_an_earlier_run_are_entered() -> None:
    fields = {
        each.key: each for each in state_fields(STATE, {}, {"rows": 9, "words": "one", "new": 1})
    }

    assert fields["rows"].value == "9"
    assert fields["words"].value == '"one"'
    assert "new" not in fields
