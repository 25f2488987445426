"""Lines of logs as JSON objects."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import datetime
from typing import Any

import pytest

from sleipnir.scheduler.process.log_lines import FORMAT_VARIABLE, log_line
from sleipnir.scheduler.process.logs import JsonFormatter, level_of, working_on


def formatted(text: str, *arguments: Any, exc_info: Any = None, **extra: Any) -> dict[str, Any]:
    record = logging.LogRecord("sleipnir.x", logging.ERROR, "", 1, text, arguments, exc_info)
    record.__dict__.update(extra)
    line = JsonFormatter().format(record)
    assert "\n" not in line
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_line_is_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLEIPNIR_MACHINE", "desk")

    found = formatted("two\nlines of %s", "text")

    assert datetime.fromisoformat(found.pop("ts")).tzinfo is not None
    assert found == {
        "level": "error",
        "logger": "sleipnir.x",
        "msg": "two\nlines of text",
        "machine": "desk",
        "pid": os.getpid(),
    }


def test_it_says_what_the_thread_works_on_and_what_was_raised() -> None:
    token = working_on.set(lambda: {"run_id": "1" * 16, "node": "s"})
    try:
        raise ValueError("well")
    except ValueError:
        found = formatted("x", exc_info=sys.exc_info(), code="R012")
    finally:
        working_on.reset(token)

    assert (found["run_id"], found["node"], found["code"]) == ("1" * 16, "s", "R012")
    assert found["exc"].endswith("ValueError: well")


def test_processes_without_logging_write_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORMAT_VARIABLE, "text")
    assert log_line("sleipnir engine", "info", "stopping") == "sleipnir engine: stopping"

    monkeypatch.setenv(FORMAT_VARIABLE, "json")
    found = json.loads(log_line("sleipnir engine", "info", "stopping"))

    assert (found["logger"], found["level"], found["msg"]) == (
        "sleipnir engine",
        "info",
        "stopping",
    )


def test_levels_have_the_names_of_the_setting() -> None:
    assert level_of("warning") == logging.WARNING
