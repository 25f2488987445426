"""The line below a page of a list."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sleipnir.scheduler.cli.paging import PageLine


def a_page(**fields: Any) -> dict[str, Any]:
    searched = {"back_to": None, "runs": 0, "complete": True}
    return {"next": None, "total": None, "at_most": None, "searched": searched, **fields}


def line(shown: int, flags: dict[str, Any] | None = None, **fields: Any) -> str:
    return PageLine("ps", flags or {}, "run", "runs").of(a_page(**fields), shown)


@pytest.mark.parametrize(
    ("shown", "page", "expected"),
    [
        (1, {"total": 1, "at_most": 1}, "1 run"),
        (20, {"total": 20, "at_most": 20}, "20 runs"),
        (20, {"total": 1204, "at_most": 1204}, "20 of 1,204 runs"),
        (1, {"total": 1204, "at_most": 1204}, "1 of 1,204 runs"),
        (20, {"total": None, "at_most": 1204}, "20 of at most 1,204 runs"),
        (20, {"total": None, "at_most": None}, "20 runs"),
        # Some ended while they were counted.
        (20, {"total": 19, "at_most": 19}, "20 runs"),
    ],
)
def test_it_says_how_much_of_how_much_a_page_is(
    shown: int, page: dict[str, Any], expected: str
) -> None:
    assert line(shown, **page) == expected


def test_it_says_how_to_continue_in_words_a_shell_takes() -> None:
    flags = {
        "status": ("failed", "timed_out"),
        "agent": ("rare one",),
        "batch": None,
        "all": True,
        "tree": False,
        "limit": 2,
    }

    assert line(2, flags, total=9, at_most=9, next="Y3Vyc29y") == (
        "2 of 9 runs; continue with: sleipnir ps --status failed --status timed_out "
        "--agent 'rare one' --all --limit 2 --cursor Y3Vyc29y"
    )


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever runs the test lives where the clock shows UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_utc")
def test_it_says_how_far_a_search_looked() -> None:
    noon = datetime.now(tz=UTC).replace(hour=12, minute=3)
    days_ago = noon - timedelta(days=40)

    def searched(back_to: datetime) -> str:
        instant = back_to.isoformat()
        return line(
            3,
            next="x",
            at_most=80_412,
            searched={"back_to": instant, "runs": 5000, "complete": False},
        )

    assert searched(days_ago) == (
        "3 of at most 80,412 runs; "
        f"looked back to {days_ago:%Y-%m-%d} 12:03 over 5,000 runs; "
        "continue with: sleipnir ps --cursor x"
    )
    assert "; looked back to 12:03 over 5,000 runs; " in searched(noon)
