"""Exit codes, and the only place where exceptions become messages and exit codes."""

from __future__ import annotations

import traceback as tracebacks
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from json import dumps
from pathlib import Path

import click

from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.errors import (
    AgentNotFound,
    BundleError,
    InvalidAgent,
    MissingVariables,
)
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler import errors

# Slow to import, and not needed for every error.
with lazy_imports():
    from sleipnir.scheduler.store import connection
    from sleipnir.scheduler.store import errors as store_errors


class ExitCode(IntEnum):
    """The exit codes of commands."""

    SUCCEEDED = 0
    FAILED = 1
    USAGE = 2
    INVALID = 3
    WAITING = 4  # for a person
    CANCELLED = 5
    TIMED_OUT = 6
    UNREACHABLE = 7
    INTERRUPTED = 130


# Their meanings in docs/cli.md.
MEANINGS: Mapping[ExitCode, str] = {
    ExitCode.SUCCEEDED: "succeeded",
    ExitCode.FAILED: "the run failed; or an answer or a cancellation was refused",
    ExitCode.USAGE: "usage: an unknown option, no such agent or run, a missing variable, a bad "
    "setting",
    ExitCode.INVALID: "the agent is invalid; the findings are on standard error, those of "
    "`validate` on standard output",
    ExitCode.WAITING: "the run waits for a person",
    ExitCode.CANCELLED: "the run was cancelled",
    ExitCode.TIMED_OUT: "the run's time limit was reached",
    ExitCode.UNREACHABLE: "the engine cannot be reached, or cannot be trusted with runs; or a run "
    "that the embedded engine has accepted is lost",
    ExitCode.INTERRUPTED: "interrupted",
}

_OF_STATUS = {
    "succeeded": ExitCode.SUCCEEDED,
    "failed": ExitCode.FAILED,
    "waiting": ExitCode.WAITING,
    "cancelled": ExitCode.CANCELLED,
    "timed_out": ExitCode.TIMED_OUT,
}

# The first matching class counts.
_OF_ERROR: tuple[tuple[type[BaseException], ExitCode], ...] = (
    (BundleError, ExitCode.INVALID),
    (AgentNotFound, ExitCode.USAGE),
    (MissingVariables, ExitCode.USAGE),
    (errors.RunNotFound, ExitCode.USAGE),
    (errors.AmbiguousRun, ExitCode.USAGE),
    (errors.BadCursor, ExitCode.USAGE),
    (errors.ViewInvalid, ExitCode.USAGE),
    (errors.SubmissionRefused, ExitCode.USAGE),
    (errors.SettingInvalid, ExitCode.USAGE),
    (errors.EngineUnreachable, ExitCode.UNREACHABLE),
    (errors.RunLost, ExitCode.UNREACHABLE),
    (errors.SleipnirError, ExitCode.FAILED),
)


def exit_code_of(status: str) -> ExitCode:
    """Return the exit code of a command attached to a run with this status."""
    return _OF_STATUS[status]


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """The report of an error.

    Args:
        kind: identifies it for programs: its documented code (`E215`), or else a word.
        message, hint: what happened, and what to do about it.
        findings: of an invalid agent; they are also the message.
    """

    exit_code: ExitCode
    kind: str
    message: str
    hint: str | None = None
    findings: Sequence[Finding] = ()

    def line(self, *, json: bool) -> str:
        """Return the text for standard error."""
        return dumps(self.to_json(), ensure_ascii=False) if json else str(self)

    def to_json(self) -> dict[str, object]:
        """Return the JSON object for programs."""
        document: dict[str, object] = {"code": self.kind, "message": self.message}
        document["hint"] = self.hint
        if self.findings:
            document["findings"] = [finding.to_json() for finding in self.findings]
        return {"error": document}

    def __str__(self) -> str:
        if self.findings:  # they name their file and severity themselves
            return self.message
        # The message may end with a question or a list with semicolons.
        joint = " " if self.message.endswith("?") else "; "
        return f"error: {self.message}" + (f"{joint}{self.hint}" if self.hint else "")


def report(error: BaseException, *, traceback: bool = False, json: bool = False) -> ExitCode:
    """Print the error for a person or program; return the exit code."""
    if traceback:
        click.echo("".join(tracebacks.format_exception(error)), err=True, nl=False)
    if isinstance(error, KeyboardInterrupt | click.Abort | EOFError):
        return ExitCode.INTERRUPTED
    told = judge(error)
    click.echo(told.line(json=json), err=True)
    return told.exit_code


def judge(error: BaseException) -> ErrorReport:
    """Return the report of an error."""
    if isinstance(error, InvalidAgent):
        return ErrorReport(ExitCode.INVALID, "invalid_agent", str(error), findings=error.findings)
    if isinstance(error, click.ClickException):
        return _judge_use(error)
    for kind, code in _OF_ERROR:
        if isinstance(error, kind):
            return _told(code, _name_of(error), str(error))
    if of_redis := _judge_redis(error):
        return _told(ExitCode.UNREACHABLE, "redis", of_redis)
    if isinstance(error, FileNotFoundError) and not _has_current_directory():
        message, hint = "the current directory does not exist any more", "change to another one"
        return ErrorReport(ExitCode.USAGE, "usage", message, hint)
    if isinstance(error, OSError) and error.strerror:
        # From the system: no space, no permission, too many open files.
        place = f"{error.filename}: " if error.filename else ""
        message, hint = f"{place}{error.strerror}", "use -vv for the traceback"
        return ErrorReport(ExitCode.FAILED, "system", message, hint)
    message, hint = f"{type(error).__name__}: {error}", "this is a bug; use -vv for the traceback"
    return ErrorReport(ExitCode.FAILED, "internal", message, hint)


def _has_current_directory() -> bool:
    try:
        return bool(Path.cwd())
    except FileNotFoundError:
        return False


def _judge_use(error: click.ClickException) -> ErrorReport:
    """Return the report of a usage error, with click's sentence reworded in our style."""
    guesses = getattr(error, "possibilities", None)
    message = (error.message if guesses else error.format_message()).rstrip(".")
    if isinstance(error, click.MissingParameter):
        message = " ".join(message.split())  # click puts each choice on a line of its own
    if message[1:2].islower():
        message = message[0].lower() + message[1:]
    if guesses:
        message += f"; did you mean {' or '.join(map(repr, guesses))}?"
    told = _told(ExitCode(error.exit_code), _name_of(error), message)
    context = getattr(error, "ctx", None)
    if told.hint is not None or context is None:
        return told
    return replace(told, hint=f"see `{context.command_path} --help`")


def _told(code: ExitCode, kind: str, text: str) -> ErrorReport:
    """Return a report from a text of our usual form: what happened; what to do."""
    if text[:1] in "ER" and text[1:4].isdecimal():  # the code of a finding or a failure
        kind = text[:4]
    message, found, hint = text.partition("; ")
    return ErrorReport(code, kind, message, hint if found else None)


def _name_of(error: BaseException) -> str:
    """Return `run_not_found` for `RunNotFound`; `usage` for click's usage errors."""
    if isinstance(error, click.UsageError):
        return "usage"
    name = type(error).__name__
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).removeprefix("_")


def _judge_redis(error: BaseException) -> str | None:
    """Return the message for an error of Redis; None for other errors."""
    return connection.describe(error) if isinstance(error, store_errors.RedisError) else None
