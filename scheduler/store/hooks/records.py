"""Hooks, and what they are told, as the texts that are stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.hooks.model import Hook, SealedSecret


@dataclass(frozen=True, slots=True)
class HookEvent:
    """An event of which a hook is to be told."""

    event: str  # its type
    event_id: str  # the same at every attempt
    at_ms: int  # when it happened
    # What it is about, by kind: `run` and perhaps `question`, `schedule`, `batch` or
    # `budget`.
    subject: Mapping[str, Any]
    url: str | None = None  # of the run's own; None: the hook's
    attempts: int = 0  # that have failed
    others: int = 0  # more hooks wanted the event than are told


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to tell a hook, and what came of it."""

    event_id: str
    event: str
    subject: Mapping[str, Any]
    at_ms: int  # of the event
    sent_ms: int
    number: int  # from 1
    status: int | None  # of the reply; None: there was none
    took_ms: int
    problem: str = ""  # why it does not count as delivered; the beginning of a refusal
    next_ms: int | None = None  # when it is tried again; None: never
    url: str | None = None  # as of `HookEvent`

    @property
    def is_delivered(self) -> bool:
        return not self.problem


def hook_text(hook: Hook) -> str:
    """Return a hook as JSON text."""
    values = {name: value for name, value in asdict(hook).items() if name != "name"}
    return encode({name: value for name, value in values.items() if value not in (None, {}, ())})


def hook_of(name: str, text: str) -> Hook:
    """Return a hook from its JSON text."""
    values = json.loads(text)
    secrets = tuple(SealedSecret(**each) for each in values.get("secrets", ()))
    return Hook(name=name, **{**values, "events": tuple(values["events"]), "secrets": secrets})


def index_text(hooks: Iterable[Hook]) -> str:
    """Return what transitions read of hooks, by name: whom they tell of which events."""
    told = [
        {
            "name": hook.name,
            "events": dict.fromkeys(hook.events, 1),
            **({"agent": hook.agent} if hook.agent else {}),
            **({"batch": hook.batch} if hook.batch else {}),
            **({"labels": dict(hook.labels)} if hook.labels else {}),
        }
        for hook in sorted(hooks, key=lambda each: each.name)
        if hook.disabled is None
    ]
    return encode(told) if told else ""


def told_of(event_id: str, text: str) -> HookEvent:
    """Return an event that a hook is to be told, from its JSON text."""
    values = json.loads(text)
    return HookEvent(
        event=values.pop("type"),
        event_id=event_id,
        at_ms=int(values.pop("at")),
        url=values.pop("url", None),
        attempts=int(values.pop("attempts", 0)),
        others=int(values.pop("others", 0)),
        subject=values,
    )


def told_text(told: HookEvent) -> str:
    """Return it as lua/lib/hooks.lua writes it."""
    given = {"url": told.url, "attempts": told.attempts, "others": told.others}
    values = {name: value for name, value in given.items() if value}
    return encode({**told.subject, **values, "type": told.event, "at": told.at_ms})


def attempt_text(attempt: Attempt) -> str:
    """Return an attempt as JSON text."""
    return encode(asdict(attempt))


def attempt_of(text: str) -> Attempt:
    """Return an attempt from its JSON text."""
    known = {each.name for each in fields(Attempt)}
    return Attempt(**{name: value for name, value in json.loads(text).items() if name in known})
