"""Logs of processes: lines of text, or JSON objects that say which run they are about."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal

from sleipnir.scheduler.process.log_lines import FORMAT_VARIABLE, json_line, machine

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

LogFormat = Literal["text", "json"]

# Returns what the current thread works on: `run_id`, `agent`, `node`, `visit`, `attempt`.
working_on: ContextVar[Callable[[], Mapping[str, object]] | None] = ContextVar(
    "working_on", default=None
)


# What `extra` of a call may say.
_OF_RECORDS = ("run_id", "node", "visit", "code")


class JsonFormatter(logging.Formatter):
    """Makes one object of a record; line ends in it are escaped."""

    def __init__(self) -> None:
        super().__init__()
        self._machine = machine()

    def format(self, record: logging.LogRecord) -> str:
        work = working_on.get()
        others: dict[str, object] = {} if work is None else dict(work())
        for name in _OF_RECORDS:
            value = getattr(record, name, None)
            if value is not None:
                others[name] = value
        if record.exc_info:
            others["exc"] = self.formatException(record.exc_info)
        at = datetime.fromtimestamp(record.created, UTC)
        text = record.getMessage()
        return json_line(record.name, record.levelname, text, at, self._machine, others)


def level_of(name: str) -> int:
    """Return the number of a level such as `info`."""
    return logging.getLevelNamesMapping()[name.upper()]


def configure_logging(level: int, log_format: LogFormat) -> None:
    """Log to standard error from now on, as does every process that this one starts."""
    os.environ[FORMAT_VARIABLE] = log_format
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    if log_format == "json":
        _catch_other_lines()


def _catch_other_lines() -> None:
    """Log what Python itself would print as plain lines: warnings, and errors nobody caught."""
    logging.captureWarnings(capture=True)
    logger = logging.getLogger("sleipnir")
    sys.excepthook = lambda kind, error, trace: logger.critical(
        "%s: %s", kind.__name__, error, exc_info=(kind, error, trace)
    )
    threading.excepthook = lambda found: logger.error(
        "a thread has ended: %s", found.exc_value, exc_info=found.exc_value
    )
