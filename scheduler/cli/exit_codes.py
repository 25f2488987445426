"""Exit codes, and the one place where exceptions become a short paragraph and such a code."""

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

# Not every error comes from a process that has loaded Redis, which takes its time.
with lazy_imports():
    from sleipnir.scheduler.store import connection
    from sleipnir.scheduler.store import errors as store_errors


class ExitCode(IntEnum):
    """What a script learns from how a command ended."""

    SUCCEEDED = 0
    FAILED = 1
    USAGE = 2
    INVALID = 3
    WAITING = 4  # for a person
    CANCELLED = 5
    TIMED_OUT = 6
    UNREACHABLE = 7
    INTERRUPTED = 130


# What docs/cli.md says of each.
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

# The first class that fits.
_OF_ERROR: tuple[tuple[type[BaseException], ExitCode], ...] = (
    (BundleError, ExitCode.INVALID),
    (AgentNotFound, ExitCode.USAGE),
    (MissingVariables, ExitCode.USAGE),
    (errors.RunNotFound, ExitCode.USAGE),
    (errors.AmbiguousRun, ExitCode.USAGE),
    (errors.BadCursor, ExitCode.USAGE),
    (errors.SubmissionRefused, ExitCode.USAGE),
    (errors.SettingInvalid, ExitCode.USAGE),
    (errors.EngineUnreachable, ExitCode.UNREACHABLE),
    (errors.RunLost, ExitCode.UNREACHABLE),
    (errors.SleipnirError, ExitCode.FAILED),
)


def exit_code_of(status: str) -> ExitCode:
    """Return the code of a command that was attached to a run of this status."""
    return _OF_STATUS[status]


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """What is said of an error.

    Args:
        kind: what programs tell it by: the code that the documentation has (`E215`), else a word.
        message, hint: what happened, and what to do about it.
        findings: of an invalid agent, which are the message themselves.
    """

    exit_code: ExitCode
    kind: str
    message: str
    hint: str | None = None
    findings: Sequence[Finding] = ()

    def line(self, *, json: bool) -> str:
        """What goes to standard error."""
        return dumps(self.to_json(), ensure_ascii=False) if json else str(self)

    def to_json(self) -> dict[str, object]:
        """Return the object that programs get."""
        document: dict[str, object] = {"code": self.kind, "message": self.message}
        document["hint"] = self.hint
        if self.findings:
            document["findings"] = [finding.to_json() for finding in self.findings]
        return {"error": document}

    def __str__(self) -> str:
        if self.findings:  # they begin with their file and say what they are
            return self.message
        # A message may end with a question or a list of its own.
        joint = " " if self.message.endswith("?") else "; "
        return f"error: {self.message}" + (f"{joint}{self.hint}" if self.hint else "")


def report(error: BaseException, *, traceback: bool = False, json: bool = False) -> ExitCode:
    """Tell the person, or the program, what went wrong, and the caller how to exit."""
    if traceback:
        click.echo("".join(tracebacks.format_exception(error)), err=True, nl=False)
    if isinstance(error, KeyboardInterrupt | click.Abort | EOFError):
        return ExitCode.INTERRUPTED
    told = judge(error)
    click.echo(told.line(json=json), err=True)
    return told.exit_code


def judge(error: BaseException) -> ErrorReport:
    """What is said of an error, and how to exit for it."""
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
        # The machine's: no room, no rights, too many open files.
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
    """Of errors in how a command was called; click's own sentences become ones like ours."""
    guesses = getattr(error, "possibilities", None)
    message = (error.message if guesses else error.format_message()).rstrip(".")
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
    """Of a text as all are written: what happened; what to do."""
    if text[:1] in "ER" and text[1:4].isdecimal():  # the code of a finding or a failure
        kind = text[:4]
    message, found, hint = text.partition("; ")
    return ErrorReport(code, kind, message, hint if found else None)


def _name_of(error: BaseException) -> str:
    """`run_not_found` of `RunNotFound`; `usage` of what click has names for."""
    if isinstance(error, click.UsageError):
        return "usage"
    name = type(error).__name__
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).removeprefix("_")


def _judge_redis(error: BaseException) -> str | None:
    """What to say of an error of Redis; None for others."""
    return connection.describe(error) if isinstance(error, store_errors.RedisError) else None
