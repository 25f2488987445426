"""Exit codes, and the one place where exceptions become a short paragraph and such a code."""

from __future__ import annotations

import traceback as tracebacks
from enum import IntEnum

import click

from sleipnir.graphs.errors import (
    AgentNotFound,
    BundleError,
    GraphError,
    InvalidAgent,
    MissingVariables,
)
from sleipnir.lazy import lazy_imports
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


_OF_STATUS = {
    "succeeded": ExitCode.SUCCEEDED,
    "failed": ExitCode.FAILED,
    "waiting": ExitCode.WAITING,
    "cancelled": ExitCode.CANCELLED,
    "timed_out": ExitCode.TIMED_OUT,
}

# The first class that fits.
_OF_ERROR: tuple[tuple[type[BaseException], ExitCode], ...] = (
    (InvalidAgent, ExitCode.INVALID),
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
    (GraphError, ExitCode.FAILED),
)


def exit_code_of(status: str) -> ExitCode:
    """The code of a command that was attached to a run of this status."""
    return _OF_STATUS[status]


def report(error: BaseException, *, traceback: bool) -> ExitCode:
    """Tell the person what went wrong, and the caller how to exit."""
    if traceback:
        click.echo("".join(tracebacks.format_exception(error)), err=True, nl=False)
    if isinstance(error, KeyboardInterrupt | click.Abort | EOFError):
        return ExitCode.INTERRUPTED
    code, message = judge(error)
    click.echo(message, err=True)
    return code


def judge(error: BaseException) -> tuple[ExitCode, str]:
    """The exit code for an error, and the paragraph that tells of it."""
    for kind, code in _OF_ERROR:
        if isinstance(error, kind):
            # Findings begin with their file and say what they are.
            return code, str(error) if isinstance(error, InvalidAgent) else f"error: {error}"
    if of_redis := _judge_redis(error):
        return ExitCode.UNREACHABLE, f"error: {of_redis}"
    if isinstance(error, OSError) and error.strerror:
        # The machine's: no room, no rights, too many open files.
        place = f"{error.filename}: " if error.filename else ""
        return ExitCode.FAILED, f"error: {place}{error.strerror}; use -vv for the traceback"
    return (
        ExitCode.FAILED,
        f"error: {type(error).__name__}: {error}\nThis is a bug; use -vv for the traceback.",
    )


def _judge_redis(error: BaseException) -> str | None:
    """What to say of an error of Redis; None for others."""
    return connection.describe(error) if isinstance(error, store_errors.RedisError) else None
