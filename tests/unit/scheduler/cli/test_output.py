"""What is printed: documents, columns, amounts, exit codes."""

from __future__ import annotations

import errno
import io
from typing import Any

import pytest
import redis

from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.errors import AgentNotFound, BundleError, InvalidAgent
from sleipnir.scheduler.cli.exit_codes import ExitCode, exit_code_of, report
from sleipnir.scheduler.errors import (
    ActionRefused,
    AmbiguousRun,
    AnswerRefused,
    EngineUnreachable,
    RunNotFound,
    SettingInvalid,
    SubmissionRefused,
)
from sleipnir.scheduler.limits.money import dollars
from sleipnir.scheduler.runs.history import changes_of
from sleipnir.scheduler.runs.map_items import MapItem
from sleipnir.scheduler.runs.model import (
    FINAL,
    Checkpoint,
    Failure,
    Run,
    RunContext,
    RunRow,
    Status,
    Usage,
)
from sleipnir.scheduler.views.documents import row_document, run_document
from sleipnir.scheduler.views.text.formatting import age, columns, cost, first_line, fitted, tokens
from sleipnir.scheduler.views.text.run_page import items
from sleipnir.scheduler.views.text.terminal_output import TerminalOutput, style, unstyled, width_of


def a_run(**fields: Any) -> Run:
    values = {
        "run_id": "00ff",
        "agent": "a",
        "digest": "d",
        "status": Status.RUNNING,
        "step": 2,
        "frontier": ("b", "c"),
        "created_at": 1_000,
        "started_at": 2_000,
        "ended_at": None,
        "deadline": None,
        "output": None,
        "failure": None,
        "usage": Usage(10, 5, 0.25),
        "context": RunContext(),
        "parent": None,
        "batch": None,
        "item": None,
        "visits": {},
        **fields,
    }
    return Run(**values)


def a_row(**fields: Any) -> RunRow:
    values = {
        "run_id": "00ff",
        "agent": "a",
        "status": Status.RUNNING,
        "frontier": ("b", "c"),
        "created_at": 1_000,
        "usage": Usage(10, 5, 0.25),
        "machine": None,
        "parent": None,
        "root": "00ff",
        "batch": None,
        "item": None,
        "labels": {"team": "red"},
        **fields,
    }
    return RunRow(**values)


def test_a_row_says_where_a_run_is() -> None:
    assert row_document(a_row(), now_ms=61_000) == {
        "run_id": "00ff",
        "agent": "a",
        "status": "running",
        "node": "b, c",
        "step": 0,
        "waits_for": None,
        "batch": None,
        "item": None,
        "labels": {"team": "red"},
        "parent": None,
        "root": "00ff",
        "created_at": "1970-01-01T00:00:01.000Z",
        "age_s": 60.0,
        "elapsed_s": 0.0,
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 15,
            "cached_tokens": 0,
            "cache_written_tokens": 0,
            "cost_usd": 0.25,
            "economy_usd": 0.0,
        },
        "failed_nodes": 0,
        "try": 1,
    }


def test_a_run_that_is_over_is_nowhere() -> None:
    assert row_document(a_row(status=Status.SUCCEEDED), now_ms=0)["node"] is None


def test_a_failed_runs_document_has_its_error_and_its_time() -> None:
    failed = a_run(status=Status.FAILED, ended_at=4_500, failure=Failure("R013", "it broke", "b"))

    document = run_document(failed, {"k": 1}, steps=1, now_ms=99_000)

    assert document["error"] == {
        "code": "R013",
        "message": "it broke",
        "node": "b",
        "caused_by": [],
    }
    assert (document["elapsed_s"], document["steps"], document["state"]) == (2.5, 1, {"k": 1})
    assert "question" not in document


def test_a_run_that_never_began_took_no_time() -> None:
    assert run_document(a_run(started_at=None), {}, steps=0, now_ms=9_000)["elapsed_s"] == 0.0


def test_columns_ignore_colours_when_they_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", TerminalOutput(io.BytesIO(), "utf-8"))
    red = style("x", fg="red")

    lines = columns(("A", "B"), [(red, "1"), ("longer", "2")])

    assert lines == ["A       B", f"{red}       1", "longer  2"]
    assert red != "x"


@pytest.mark.parametrize(
    ("widths", "room", "found"),
    [
        ([16, 10, 9], 40, [16, 10, 9]),
        ([16, 10, 80], 64, [16, 10, 34]),
        ([50, 10, 50], 65, [32, 10, 19]),
        ([16, 5, 22, 4, 3, 6, 4], 40, [16, 5, 9, 4]),
        ([16, 80, 80], 30, [15, 13]),
        ([16, 80, 80], 10, [10]),
        ([16, 80, 80], 1, [1]),
    ],
)
def test_the_widest_columns_give_of_their_room_and_the_last_ones_go(
    widths: list[int], room: int, found: list[int]
) -> None:
    assert fitted(widths, room) == found


def test_no_line_of_a_table_is_longer_than_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", TerminalOutput(io.BytesIO(), "utf-8"))
    monkeypatch.setenv("COLUMNS", "40")

    lines = columns(
        ("RUN", "QUESTION"), [("0123456789abcdef", style("長い質問です。" * 9, fg="red"))]
    )

    assert [width_of(line) for line in lines] == [26, 39]
    assert unstyled(lines[1]) == "0123456789abcdef  長い質問です。長い質…"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0s"), (59, "59s"), (60, "1m"), (7_200, "2h"), (200_000, "2d")]
)
def test_ages_are_told_in_their_largest_unit(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_amounts_tell_nothing_from_unknown() -> None:
    assert [tokens(Usage()), tokens(Usage(1_000, 500))] == ["-", "1,500"]
    assert [cost(Usage()), cost(Usage(1, 1, None)), cost(Usage(1, 1, 0.5))] == ["-", "?", "$0.5000"]


@pytest.mark.parametrize(
    ("usd", "shown"),
    [
        (0, "$0"),
        (0.000012, "$0.000012"),
        (1e-9, "$0.0000000010"),
        (0.00098, "$0.00098"),
        (0.0042, "$0.0042"),
        (1234.5, "$1,234.5000"),
    ],
)
def test_money_has_significant_digits_however_small(usd: float, shown: str) -> None:
    assert dollars(usd) == shown


def test_the_first_line_of_a_text_is_cut_to_its_width() -> None:
    assert first_line("one\ntwo") == "one"
    assert first_line("abcdef", width=4) == "abc…"
    assert first_line("") == ""


def test_changes_name_the_value_before() -> None:
    history = [
        Checkpoint(0, 0, {"k": 1, "other": 0}, ("a",), {}),
        Checkpoint(1, 0, {"k": 2}, ("b",), {"a": {}}),
    ]

    assert [changes for _, changes in changes_of(history, "k")] == [
        {"k": {"after": 1}},
        {"k": {"before": 1, "after": 2}},
    ]


def test_every_final_status_and_waiting_have_an_exit_code_of_their_own() -> None:
    codes = {status: exit_code_of(status) for status in (*FINAL, Status.WAITING)}

    assert len(set(codes.values())) == len(codes)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidAgent([Finding("E001", "wrong")]), ExitCode.INVALID),
        (BundleError("too large"), ExitCode.INVALID),
        (AgentNotFound("a", []), ExitCode.USAGE),
        (RunNotFound("a"), ExitCode.USAGE),
        (AmbiguousRun("a", ["ab", "ac"]), ExitCode.USAGE),
        (SubmissionRefused("no"), ExitCode.USAGE),
        (SettingInvalid("no"), ExitCode.USAGE),
        (EngineUnreachable("nobody there"), ExitCode.UNREACHABLE),
        (AnswerRefused("late"), ExitCode.FAILED),
        (ActionRefused("late"), ExitCode.FAILED),
        (ZeroDivisionError(), ExitCode.FAILED),
        (OSError(errno.ENOSPC, "No space left on device"), ExitCode.FAILED),
        (redis.exceptions.ReadOnlyError("a replica"), ExitCode.UNREACHABLE),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
    ],
)
def test_errors_have_the_exit_code_of_their_kind(error: BaseException, code: ExitCode) -> None:
    assert report(error, traceback=False) == code


def test_what_the_machine_lacks_is_no_surprise(capsys: pytest.CaptureFixture[str]) -> None:
    report(OSError(errno.ENOSPC, "No space left on device", "/tmp/x"), traceback=False)

    assert capsys.readouterr().err.startswith("error: /tmp/x: No space left on device;")


def test_a_full_redis_is_told_without_the_command_that_met_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = "Command # 1 (SET k secret) of pipeline caused error: command not allowed"
    report(redis.exceptions.OutOfMemoryError(said), traceback=False)

    assert capsys.readouterr().err == (
        "error: Redis is full (command not allowed); "
        "make room, or raise its maxmemory, and try again\n"
    )


def test_items_of_a_map_are_counted_and_listed() -> None:
    found = [
        MapItem(0, "done", 1250, Usage(10, 5, 0.001, 0), None),
        MapItem(1, "failed", 3, None, "out of order\nat line 3"),
        MapItem(2, "left_out", None, None, None),
    ]

    assert list(items(found)) == [
        "1 done, 1 failed, 1 left out",
        "INDEX  STATE     NODE  TOOK  TOKENS  COST     REASON",
        "0      done      -     1.2s  15      $0.0010",
        "1      failed    -     0.0s  -       -        out of order",
        "2      left out  -     -     -       -",
    ]
