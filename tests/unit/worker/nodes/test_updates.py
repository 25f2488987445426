"""`state_updates`: order, layers and types."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.worker.executors.updates import apply_updates

STATE = {"n": 5, "output": "of the state"}


def updated(updates: dict[str, str], *, stringify: bool = False, **writes: Any) -> dict[str, Any]:
    apply_updates(updates, STATE, writes, {"output": {"k": [1]}}, stringify=stringify)
    return writes


@pytest.mark.parametrize(
    ("template", "value"),
    [("{{n}}", 5), ("n={{n}}", "n=5"), ("{{output.k}}", [1]), ("{{gone}}", ""), ("5", "5")],
)
def test_a_sole_reference_keeps_its_type(template: str, value: Any) -> None:
    assert updated({"key": template}) == {"key": value}


def test_later_entries_see_earlier_ones() -> None:
    assert updated({"n": "{{output.k}}", "copy": "{{n}}"}) == {"n": [1], "copy": [1]}


def test_entries_see_what_the_body_wrote() -> None:
    assert updated({"copy": "{{n}}"}, n=6) == {"n": 6, "copy": 6}


def test_writing_a_scoped_name_does_not_change_what_it_reads() -> None:
    writes = updated({"output": "kept", "copy": "{{output}}"})

    assert writes == {"output": "kept", "copy": {"k": [1]}}


def test_stringify_renders_everything_as_text() -> None:
    assert updated({"key": " {{n}}"}, stringify=True) == {"key": " 5"}


def test_no_updates_write_nothing() -> None:
    writes: dict[str, Any] = {}

    apply_updates(None, STATE, writes, {}, stringify=False)

    assert writes == {}
