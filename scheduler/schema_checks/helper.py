"""`python -m sleipnir.scheduler.schema_checks.helper`: the process that checks values.

Each check has a limit of CPU time, so a busy machine fails no check. When the limit passes, it
reports what it was doing, or is killed by its caller.
"""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from sleipnir.scheduler.schema_checks import checking

# For a schema that expands endlessly, or a value that is quoted repeatedly.
_MEMORY_BYTES = 4 * 2**30

Answer = dict[str, Any]


class _OutOfTime(BaseException):
    """The limit has passed; a BaseException, which libraries do not catch."""


class _Limit:
    """The timer of the current check."""

    armed = False

    @classmethod
    def ring(cls, *_: object) -> None:
        if cls.armed:
            raise _OutOfTime

    @classmethod
    def run(cls, work: Callable[[], Answer], limit_s: float) -> Answer:
        """Run the work and return its answer.

        Raises:
            _OutOfTime: it took more than `limit_s` seconds of CPU time.
        """
        cls.armed = True
        signal.setitimer(signal.ITIMER_PROF, limit_s)
        try:
            return work()
        finally:
            cls.armed = False
            signal.setitimer(signal.ITIMER_PROF, 0)


def main() -> None:
    """Answer questions until the caller closes the channel."""
    channel: Connection[Any, Any] = Connection(os.dup(0))
    checking.load()  # not counted against any check
    signal.signal(signal.SIGPROF, _Limit.ring)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    with suppress(EOFError, OSError):
        while True:
            question = json.loads(channel.recv_bytes())
            channel.send_bytes(json.dumps(_answer(question)).encode())


def _answer(question: dict[str, Any]) -> Answer:
    checking.Doing.pattern = None
    try:
        return _Limit.run(lambda: _checked(question), question["limit_s"])
    except _OutOfTime:
        return {"late": _busy_with(question)}
    except checking.SchemaInvalid as error:
        return {"invalid": str(error)}
    except checking.Unchecked as error:
        return {"unchecked": str(error)}
    except Exception as error:  # any bug of a library
        return {"unchecked": f"{type(error).__name__}: {error}"}


def _checked(question: dict[str, Any]) -> Answer:
    if "pattern" in question:
        return {"found": checking.matches(question["pattern"], question["text"])}
    return {"misfits": checking.misfits(question["schema"], question["value"])}


def _busy_with(question: dict[str, Any]) -> str:
    pattern = checking.Doing.pattern
    if pattern is None:
        return ""
    shown = f"pattern {pattern!r}" if len(pattern) <= 200 else f"pattern {pattern[:200]!r}…"
    schema = question.get("schema")
    place = checking.place_of(pattern, json.loads(schema)) if schema else None
    return f"{shown} at {place}" if place else shown


if __name__ == "__main__":
    main()
