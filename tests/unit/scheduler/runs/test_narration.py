"""Events of a run as the lines people read."""

from __future__ import annotations

import pytest

from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.events import (
    ChildStarted,
    Departure,
    Event,
    ItemCommitted,
    ModelCalled,
    QuestionAnswered,
    QuestionAsked,
    ReplyCut,
    ReplyLimited,
    RetryScheduled,
    RunEnded,
    RunSubmitted,
    StepCommitted,
    ToolCalled,
    ToolPrinted,
    UnknownEvent,
    VisitDelayed,
    WorkerLost,
)
from sleipnir.scheduler.runs.narration import render


def ended(status: str, code: str = "", message: str = "", node: str | None = None) -> list[str]:
    error = encode({"code": code, "message": message, "node": node}) if code else ""
    return render(RunEnded(status, error, elapsed_ms=2_414))


def test_a_start_names_graph_and_first_node() -> None:
    found = render(RunSubmitted("g", ("a", "script"), warnings=("W004 [r] lost",)))

    assert found == ["▸ graph: g (start: a)", "▸ warning W004 [r] lost", "▸ a (script)"]


def test_a_route_and_the_node_entered() -> None:
    found = render(StepCommitted(1, (Departure("a", ("b",), None),), (("b", "llm"),)))

    assert found == ["▸ a -> b", "▸ b (llm)"]


def test_a_route_says_by_which_condition_also_after_a_failure() -> None:
    went = Departure("a", ("b",), None, (1, "score < 0.8"))
    failed = Departure("a", ("b",), "exit code 1: no", (2, "failed"))

    assert render(StepCommitted(1, (went,), (("b", "end"),)))[0] == "▸ a -> b (score < 0.8)"
    assert render(StepCommitted(1, (failed,), (("b", "end"),)))[:2] == [
        "▸ a failed, going to b: exit code 1: no",
        "▸ a -> b (failed)",
    ]


def test_what_bounded_a_reply_is_said() -> None:
    assert render(ReplyLimited("a", 4_096, "run")) == [
        "▸   reply limited to 4096 tokens by budget run"
    ]
    assert render(ReplyCut("a", 12)) == ["▸   reply cut off after 12 tokens"]
    assert render(ReplyCut("a", 0)) == ["▸   reply cut off"]


def test_a_fan_out_announces_its_super_step() -> None:
    departure = Departure("s", ("a", "b"), None)
    found = render(StepCommitted(1, (departure,), (("a", "llm"), ("b", "rag"))))

    assert found == [
        "▸ s -> a, b",
        "▸ super-step: a, b",
        "▸   a (llm)",
        "▸   b (rag)",
    ]


def test_a_super_step_is_done_where_it_joins() -> None:
    departures = (Departure("a", ("j",), None), Departure("b", ("j",), None))
    found = render(StepCommitted(1, departures, (("j", "end"),)))

    assert found == ["▸ super-step done -> j", "▸ j (end)"]


def test_a_tolerated_failure_names_target_and_reason() -> None:
    departure = Departure("a", ("f",), failure="exit code 1: no")
    found = render(StepCommitted(1, (departure,), (("f", "end"),)))

    assert found == ["▸ a failed, going to f: exit code 1: no", "▸ f (end)"]


def test_dropped_routes_and_warnings_are_shown() -> None:
    warnings = ("map 'm': 2 items failed",)
    found = render(StepCommitted(1, (), (), dropped=("a -> b",), warnings=warnings))

    assert found == [
        "▸ warning map 'm': 2 items failed",
        "▸ warning route a -> b was dropped, an end node finished",
    ]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (ModelCalled("a", "m", ("t", "u")), "▸   llm call: model=m tools=t,u"),
        (ModelCalled("a", "m", ()), "▸   llm call: model=m tools=<none>"),
        (ModelCalled("a", "m", (), "cached"), "▸   llm call: model=m tools=<none> (cached)"),
        (RetryScheduled("a", 2, 3, 1.0, "429"), "▸   retry 2/3 in 1.0s: 429"),
        (
            VisitDelayed("a", 2.0, "its turn has not come"),
            "▸   waiting 2.0s: its turn has not come",
        ),
        (
            VisitDelayed("a", 600.0, "openai is paused", for_person=True),
            "▸   waiting for a person: openai is paused",
        ),
        (WorkerLost("a", "1a2b3c4d"), "▸ a: worker 1a2b3c4d was lost; another one takes over"),
        (ToolPrinted("a", "t", "half done"), "▸     half done"),
        (ToolCalled("a", "t", 12, None), "▸   tool t: 12ms"),
        (ToolCalled("a", "t", 12, "no such file"), "▸   tool t: failed: no such file"),
        (ChildStarted("a", "h", "ab12"), "▸   agent h: run ab12"),
        (QuestionAsked("q", "Deploy?\nReally?", (), None), "▸ q waiting: Deploy?"),
        (QuestionAsked("q", "", (), None), "▸ q waiting: "),
        (QuestionAnswered("q"), "▸ q answered"),
        (QuestionAnswered("q", by="ada"), "▸ q answered by ada"),
    ],
)
def test_details_are_one_line_each(event: Event, line: str) -> None:
    assert render(event) == [line]


def test_items_of_a_map_are_counted_and_their_failures_told() -> None:
    assert render(ItemCommitted("m", 4, None, done=2, total=5)) == ["▸   m [2/5] done"]
    failed = ItemCommitted("m", 4, "no", done=2, total=5)
    assert render(failed)[0] == "▸   m item [4] failed: no"


def test_ends_tell_status_time_and_reason() -> None:
    assert ended("succeeded") == ["▸ graph done in 2.41s"]
    assert ended("failed", "R004", "too often", "a") == [
        "▸ graph failed in 2.41s: R004 at a: too often"
    ]
    assert ended("failed", "R006", "nowhere") == ["▸ graph failed in 2.41s: R006: nowhere"]
    assert ended("cancelled", "cancelled", "by its user") == [
        "▸ graph cancelled in 2.41s: by its user"
    ]
    assert ended("timed_out", "R005", "longer than 2s") == [
        "▸ graph timed out in 2.41s: longer than 2s"
    ]


def test_the_end_of_a_normal_agent_s_run_is_not_that_of_a_graph() -> None:
    assert render(RunEnded("succeeded", "", 2_414, converses=True)) == ["▸ agent done in 2.41s"]
    assert render(RunEnded("cancelled", "", 10, converses=True)) == ["▸ agent cancelled in 0.01s"]


def test_what_is_unknown_says_nothing() -> None:
    assert render(UnknownEvent("of a later version", {"whatever": 1})) == []


def test_a_line_is_cut_and_stays_one_line() -> None:
    (line,) = render(ChildStarted("a", "a\x1b[31m\n" + "x" * 200, "r"))

    assert len(line) == 120
    assert line.startswith("▸   agent a\\x1b[31m\\nxxx")
    assert line.endswith("…")
