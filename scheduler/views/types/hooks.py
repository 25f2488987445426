"""Hooks, what became of attempts to tell them, and triggers."""

from __future__ import annotations

from typing import Annotated, Any

from typing_extensions import TypedDict

from sleipnir.scheduler.runs.documents import about


class TriggerDocument(TypedDict):
    name: str
    agent: str
    path: Annotated[str, about("where requests are sent, on the monitor")]
    url: Annotated[str | None, about("the same as others reach it: with `monitor_public_url`")]
    verify: Annotated[str, about("`standard`, `github`, `bearer` or `none`")]
    prompt: Annotated[str, about("a template, as are `set` and `key`")]
    set: dict[str, str]
    key: str | None
    header: Annotated[list[str], about("that templates see besides the usual ones")]
    batch: Annotated[str | None, about("that its runs belong to")]
    created_at: str
    secrets: Annotated[int, about("how many are good: two while one is rotated; 0: anybody may")]
    requests: Annotated[
        dict[str, int],
        about(
            "what became of those so far: `started` a run, `repeated` one, `unauthorized`, "
            "`refused`, `limited` (too many a second), `failed`"
        ),
    ]


class TriggerListDocument(TypedDict):
    triggers: list[TriggerDocument]


class CreatedTriggerDocument(TriggerDocument):
    secret: Annotated[str | None, about("that requests prove themselves with; not shown again")]


class HookFilterDocument(TypedDict):
    agent: Annotated[str | None, about("only events of its runs")]
    batch: Annotated[str | None, about("only events of it and its runs")]
    label: Annotated[dict[str, str], about("only events of runs with all of them")]


class HookDocument(TypedDict):
    name: str
    url: str
    notification: Annotated[bool, about("`notify` in config.yaml makes it, and has the whole URL")]
    events: list[str]
    filter: HookFilterDocument
    enabled: bool
    disabled: Annotated[str | None, about("why nothing is sent")]
    created_at: str
    secrets: Annotated[int, about("how many sign: two while one is rotated")]
    delivered: Annotated[int, about("events so far")]
    failed: Annotated[int, about("attempts so far")]
    given_up: Annotated[int, about("events so far")]
    open: Annotated[int, about("events to be delivered, or tried again")]
    failing_since: Annotated[str | None, about("every attempt since then has failed")]


class HookListDocument(TypedDict):
    hooks: list[HookDocument]


class SecretDocument(TypedDict):
    name: str
    secret: Annotated[str, about("that what is sent is signed with; it is not shown again")]


class CreatedHookDocument(HookDocument):
    secret: Annotated[str, about("that receivers check signatures with; it is not shown again")]


class AttemptDocument(TypedDict):
    event_id: Annotated[str, about("the header `webhook-id`, the same at every attempt")]
    event: str
    subject: Annotated[
        dict[str, Any],
        about("what it is about: `run` and perhaps `question`, `schedule`, `batch` or `budget`"),
    ]
    at: Annotated[str, about("when the event happened")]
    sent_at: str
    attempt: Annotated[int, about("from 1")]
    status: Annotated[int | None, about("of the reply")]
    took_ms: int
    delivered: bool
    problem: Annotated[str, about("why it does not count as delivered, and what was replied")]
    next_at: Annotated[str | None, about("when it is tried again")]


class AttemptListDocument(TypedDict):
    deliveries: Annotated[list[AttemptDocument], about("the last 100 attempts, the newest first")]


class SentEventDocument(TypedDict):
    event_id: str
