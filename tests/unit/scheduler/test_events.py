"""Events of a run as they are stored, and read back."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from sleipnir.scheduler.runs.events import (
    ChildrenDropped,
    ChildStarted,
    Continued,
    Departure,
    Event,
    ItemCommitted,
    ItemWentOn,
    ModelCalled,
    Paused,
    QuestionAnswered,
    QuestionAsked,
    ReplyChecked,
    ReplyCut,
    ReplyLimited,
    RetryScheduled,
    RunEnded,
    RunForked,
    RunMoved,
    RunRetried,
    RunSubmitted,
    StepCommitted,
    TextStreamed,
    ToolCalled,
    ToolPrinted,
    UnknownEvent,
    VisitDelayed,
    WorkerLost,
    from_json,
    to_json,
)
from sleipnir.scheduler.runs.model import Failure
from sleipnir.scheduler.runs.narration import render

FAILED = '{"code":"R009","message":"no","node":null}'
EVENTS: list[Event] = [
    RunSubmitted("g", ("a", "script"), ("W004",)),
    RunRetried(3, ("a",), 2, ("x",), ("d1", "d2")),
    RunMoved("desk"),
    RunMoved(None),
    RunForked("g", "ab12", 3, (("a", "script"),), ("x",), ("d1", "d2")),
    StepCommitted(
        2, (Departure("a", ("b", "c"), "no"),), (("b", "llm"), ("c", "end")), ("a -> d",), ("w",)
    ),
    ModelCalled("a", "p:m", ("t",)),
    ModelCalled("a", "p:m", (), "cached"),
    ToolPrinted("a", "t", "é"),
    ToolCalled("a", "t", 3, None),
    RetryScheduled("a", 2, 3, 0.5, "429"),
    VisitDelayed("a", 0.5, "its turn has not come"),
    WorkerLost("a", "1a2b3c4d"),
    ReplyCut("draft", 4096),
    ReplyLimited("draft", 2048, "run"),
    ReplyChecked("draft", 1, 2, "At most 280 characters."),
    Continued("coder", 1, 10, 2),
    Paused("coder", "the tests need a key"),
    ChildrenDropped("boss", ("agent_h_1",)),
    ChildStarted("a", "h", "ab12"),
    ItemCommitted("m", 0, None, ("w",)),
    ItemCommitted("m", 0, "no", done=1, total=2),
    ItemWentOn("m", 0, "b", "c", "no"),
    QuestionAsked("a", "Sure?", ("yes", "no"), None),
    QuestionAnswered("a"),
    QuestionAnswered("a", by="me", via="page"),
    RunEnded("failed", FAILED, 12),
    TextStreamed("a", None, "Once"),
    UnknownEvent("of a later version", {"whatever": [1]}),
]


@pytest.mark.parametrize("event", EVENTS)
def test_what_is_stored_is_read_back(event: Event) -> None:
    assert from_json(to_json(event)) == event


def test_every_kind_is_among_those_read_back() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(Event))


def test_a_step_is_stored_under_the_names_that_readers_know() -> None:
    step = StepCommitted(2, (Departure("a", ("b",), None),), (("b", "llm"),))

    assert json.loads(to_json(step)) == {
        "kind": "step",
        "step": 2,
        "from": [{"id": "a", "to": ["b"], "failure": None}],
        "next": [["b", "llm"]],
        "dropped": [],
        "warnings": [],
    }


def test_only_what_is_optional_is_left_out() -> None:
    assert to_json(ModelCalled("a", "m", ())) == (
        '{"kind":"llm_call","node":"a","model":"m","tools":[]}'
    )
    assert '"failure":null' in to_json(ToolCalled("a", "t", 3, None))


@pytest.mark.parametrize(
    "text",
    [
        '{"kind":"child","node":"a"}',
        '{"kind":"step","step":1,"next":[]}',
        '{"kind":"step","step":1,"next":[],"from":[{"id":"a"}]}',
    ],
)
def test_an_event_that_lacks_something_is_none_we_know(text: str) -> None:
    event = from_json(text)

    assert isinstance(event, UnknownEvent)
    assert render(event) == []


def test_fields_of_later_versions_are_passed_over() -> None:
    assert from_json('{"kind":"answered","node":"a","mood":"good"}') == QuestionAnswered("a")
    assert from_json('{"kind":"wait","node":"a","delay_s":1,"reason":"r"}') == VisitDelayed(
        "a", 1, "r", for_person=False
    )


def test_an_end_tells_its_failure() -> None:
    assert RunEnded("failed", FAILED, 12).failure == Failure("R009", "no", None)
    assert RunEnded("succeeded", "", 12).failure is None


def test_an_event_within_its_limit_is_kept_as_it_is() -> None:
    event = ToolPrinted("a", "t", "é" * 100)

    assert to_json(event, 1_000) == to_json(event)


LONG = "x" * 10_000


@pytest.mark.parametrize(
    "event",
    [
        ToolPrinted("n", "t", "漢" * 100_000),
        StepCommitted(1, (), tuple((f"node{n}", "script") for n in range(8_000))),
        StepCommitted(1, (), (), warnings=(LONG,) * 1_000),
        StepCommitted(
            1, (Departure(LONG, (LONG,) * 9, LONG),) * 9, ((LONG, "llm"),) * 9, (LONG,) * 9
        ),
        QuestionAsked("q", "x" * 10**6, ("y" * 10**4,) * 100, None),
    ],
)
@pytest.mark.parametrize("limit_bytes", [512, 8_192])
def test_a_larger_event_is_cut_and_can_still_be_shown(event: Event, limit_bytes: int) -> None:
    text = to_json(event, limit_bytes)

    assert len(text.encode()) <= limit_bytes
    kept = from_json(text)
    assert type(kept) is type(event)
    assert render(kept)
