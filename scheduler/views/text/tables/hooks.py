"""Hooks as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sleipnir.scheduler.runs.hooks.model import EVENTS
from sleipnir.scheduler.views.text import formatting

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types import hooks as types

_HEAD = ("HOOK", "STATE", "DELIVERED", "FAILED", "OPEN", "EVENTS", "URL")
_ATTEMPTS_HEAD = ("SENT", "EVENT", "ABOUT", "TRY", "STATUS", "MS", "NEXT", "ID")


def lines_of(hooks: Sequence[types.HookDocument]) -> Iterator[str]:
    """Yield the lines of a table."""
    rows = [
        (
            each["name"],
            state_of(each),
            *(f"{each[count]:,}" for count in ("delivered", "failed", "open")),
            events_text(each["events"]),
            each["url"],
        )
        for each in hooks
    ]
    yield from formatting.columns(_HEAD, rows)


def page_of(hook: types.HookDocument) -> Iterator[str]:
    """Yield the lines about one hook."""
    chosen = hook["filter"]
    facts = {
        "url": hook["url"],
        "events": ", ".join(hook["events"]),
        "agent": chosen["agent"],
        "batch": chosen["batch"],
        "labels": ", ".join(f"{name}={value}" for name, value in chosen["label"].items()),
        "disabled": hook["disabled"],
        "secrets": "two, while one is rotated" if hook["secrets"] > 1 else None,
        "failing": hook["failing_since"] and f"every attempt since {hook['failing_since']}",
        "so far": f"{hook['delivered']:,} delivered, {hook['failed']:,} attempts failed, "
        f"{hook['given_up']:,} given up, {hook['open']:,} open",
    }
    yield from formatting.facts_lines(f"hook {hook['name']}", facts)


def attempt_lines(attempts: Sequence[types.AttemptDocument]) -> Iterator[str]:
    """Yield the lines of a table of attempts, each with what it failed on below it."""
    rows = [
        (
            each["sent_at"],
            each["event"],
            subject_text(each),
            str(each["attempt"]),
            "-" if each["status"] is None else str(each["status"]),
            f"{each['took_ms']:,}",
            each["next_at"] or "-",
            each["event_id"],
        )
        for each in attempts
    ]
    head, *lines = formatting.columns(_ATTEMPTS_HEAD, rows, fit=False)
    yield head
    for line, attempt in zip(lines, attempts, strict=True):
        yield line
        if attempt["problem"]:
            yield f"  {formatting.first_line(attempt['problem'])}"


def state_of(hook: types.HookDocument) -> str:
    """Return how a hook is, in a word."""
    if hook["disabled"] is not None:
        return "disabled"
    return "failing" if hook["failing_since"] else "on"


def events_text(events: Sequence[str]) -> str:
    """Return the names of events in short: a kind of which there are all is `run.*`."""
    found, named = list[str](), set(events)
    for kind in dict.fromkeys(event.partition(".")[0] for event in events):
        whole = [event for event in EVENTS if event.startswith(f"{kind}.")]
        found += (
            [f"{kind}.*"]
            if len(whole) > 1 and named.issuperset(whole)
            else [event for event in whole if event in named]
        )
    return ", ".join(found)


def subject_text(attempt: types.AttemptDocument) -> str:
    """Return what an event is about, in short."""
    for kind in ("run", "schedule", "batch", "budget"):
        if kind in attempt["subject"]:
            return str(attempt["subject"][kind])
    return "-"
