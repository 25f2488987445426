"""What is said to have been used, as it is counted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleipnir.scheduler.runs.model import Usage

ANYTHING: Any = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers())
)


@pytest.mark.parametrize(
    ("reported", "counted"),
    [
        ((3, 4, 0.5, 2), Usage(3, 4, 0.5, 2)),
        ((3, 4, None, 0), Usage(3, 4, None, 0)),
        ((-3, -4, -0.5, -2), Usage(0, 0, 0.0, 0)),
        ((2**70, 1.9, float("inf"), 0), Usage(10**12, 1, 1e4, 0)),
        (("3", None, "dear", [1]), Usage(0, 0, None, 0)),
        ((float("nan"), True, float("nan"), 0), Usage(0, 0, None, 0)),
        ((3, 0, 0.0, 5), Usage(3, 0, 0.0, 3)),
    ],
)
def test_what_cannot_be_is_brought_into_range(reported: tuple[Any, ...], counted: Usage) -> None:
    assert Usage.reported(*reported) == counted


@given(st.tuples(ANYTHING, ANYTHING, ANYTHING, ANYTHING))
def test_whatever_is_reported_can_be_stored(reported: tuple[Any, ...]) -> None:
    usage = Usage.reported(*reported)

    assert Usage.from_text(usage.to_text()).prompt_tokens == usage.prompt_tokens
    assert 0 <= usage.cached_tokens <= usage.prompt_tokens <= 10**12
    assert 0 <= usage.completion_tokens <= 10**12
