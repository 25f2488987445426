"""Events of a run as the lines people read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphs.state import encode
from scheduler.narration import event_text, render
from scheduler.run import Event

STEP: dict[str, Any] = {"from": [], "next": [], "dropped": [], "warnings": []}


def lines(kind: str, **fields: Any) -> list[str]:
    return render(Event("1-0", 1, kind, fields))


def step(**fields: Any) -> list[str]:
    return lines("step", **{**STEP, **fields})


def came_from(node: str, *targets: str, failure: str | None = None) -> dict[str, Any]:
    return {"id": node, "to": list(targets), "failure": failure}


def ended(status: str, code: str = "", message: str = "", node: str | None = None) -> list[str]:
    error = encode({"code": code, "message": message, "node": node}) if code else ""
    return lines("ended", status=status, error=error, elapsed_ms=2_414)


def test_a_start_names_graph_and_first_node() -> None:
    found = lines("submitted", agent="g", start=["a", "script"], warnings=["W004 [r] lost"])

    assert found == ["▸ graph: g (start: a)", "▸ warning W004 [r] lost", "▸ a (script)"]


def test_a_route_and_the_node_entered() -> None:
    found = step(**{"from": [came_from("a", "b")], "next": [["b", "llm"]]})

    assert found == ["▸ a -> b", "▸ b (llm)"]


def test_a_fan_out_announces_its_super_step() -> None:
    found = step(**{"from": [came_from("s", "a", "b")], "next": [["a", "llm"], ["b", "rag"]]})

    assert found == [
        "▸ s -> a, b",
        "▸ super-step: a, b",
        "▸   a (llm)",
        "▸   b (rag)",
    ]


def test_a_super_step_is_done_where_it_joins() -> None:
    found = step(**{"from": [came_from("a", "j"), came_from("b", "j")], "next": [["j", "end"]]})

    assert found == ["▸ super-step done -> j", "▸ j (end)"]


def test_a_tolerated_failure_names_target_and_reason() -> None:
    found = step(
        **{"from": [came_from("a", "f", failure="exit code 1: no")], "next": [["f", "end"]]}
    )

    assert found == ["▸ a failed, going to f: exit code 1: no", "▸ f (end)"]


def test_dropped_routes_and_warnings_are_shown() -> None:
    found = step(dropped=["a -> b"], warnings=["map 'm': 2 items failed"])

    assert found == [
        "▸ warning map 'm': 2 items failed",
        "▸ warning route a -> b was dropped, an end node finished",
    ]


@pytest.mark.parametrize(
    ("kind", "fields", "line"),
    [
        ("llm_call", {"model": "m", "tools": ["a", "b"]}, "▸   llm call: model=m tools=a,b"),
        ("llm_call", {"model": "m", "tools": []}, "▸   llm call: model=m tools=<none>"),
        (
            "llm_call",
            {"model": "m", "tools": [], "source": "cached"},
            "▸   llm call: model=m tools=<none> (cached)",
        ),
        (
            "retry",
            {"attempt": 2, "of": 3, "delay_s": 1.0, "reason": "429"},
            "▸   retry 2/3 in 1.0s: 429",
        ),
        (
            "wait",
            {"delay_s": 2.0, "reason": "its turn has not come", "for_person": False},
            "▸   waiting 2.0s: its turn has not come",
        ),
        (
            "wait",
            {"delay_s": 600.0, "reason": "openai is paused", "for_person": True},
            "▸   waiting for a person: openai is paused",
        ),
        ("child", {"agent": "h", "run_id": "ab12"}, "▸   agent h: run ab12"),
        ("question", {"node": "q", "text": "Deploy?\nReally?"}, "▸ q waiting: Deploy?"),
        ("question", {"node": "q", "text": ""}, "▸ q waiting: "),
        ("answered", {"node": "q"}, "▸ q answered"),
    ],
)
def test_details_are_one_line_each(kind: str, fields: dict[str, Any], line: str) -> None:
    assert lines(kind, **fields) == [line]


def test_items_of_a_map_are_counted_and_their_failures_told() -> None:
    fields = {"map": "m", "index": 4, "done": 2, "total": 5, "warnings": []}

    assert lines("item", failure=None, **fields) == ["▸   m [2/5] done"]
    assert lines("item", failure="no", **fields)[0] == "▸   m item [4] failed: no"


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


def test_what_is_unknown_says_nothing() -> None:
    assert lines("of a later version", whatever=1) == []


def test_a_line_is_cut_and_stays_one_line() -> None:
    (line,) = lines("child", agent="a\x1b[31m\n" + "x" * 200, run_id="r")

    assert len(line) == 120
    assert line.startswith("▸   agent a\\x1b[31m\\nxxx")
    assert line.endswith("…")


def test_an_event_within_its_limit_is_kept_as_it_is() -> None:
    event = {"kind": "output", "text": "é" * 100}

    assert event_text(event, 1_000) == encode(event)


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "output", "node": "n", "tool": "t", "text": "漢" * 100_000},
        {"kind": "step", "step": 1, **STEP, "next": [[f"node{n}", "script"] for n in range(8_000)]},
        {"kind": "step", "step": 1, **STEP, "warnings": ["w" * 10_000] * 1_000},
        {"kind": "question", "text": "x" * 10**6, "options": ["y" * 10**4] * 100, "default": None},
    ],
)
@pytest.mark.parametrize("limit_bytes", [512, 8_192])
def test_a_larger_event_is_cut_and_can_still_be_shown(
    event: dict[str, Any], limit_bytes: int
) -> None:
    text = event_text(event, limit_bytes)

    kept = json.loads(text)
    assert len(text.encode()) <= limit_bytes
    assert kept.keys() == event.keys()
    kind = kept.pop("kind")
    assert lines(kind, **{"node": "n", **kept}) or kind == "step"
