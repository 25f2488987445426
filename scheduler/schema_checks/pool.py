"""The pool of checking processes: started on demand, reused, killed when they hang."""

from __future__ import annotations

import atexit
import json
import multiprocessing
import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

from sleipnir.graphs.state import encode
from sleipnir.scheduler.schema_checks import DEFAULT_LIMIT_S, checking
from sleipnir.scheduler.schema_checks.checking import Misfit, SchemaInvalid, Unchecked

# Keywords that make a check cost more than schema size times value size.
_COSTLY = ("pattern", "Ref", "$ref", "unique", "unevaluated")
# Up to this product of schema size and value size, in characters, a check is done in place.
_SMALL = 10_000_000

# A machine may be busy or swap; a process silent for this much longer hangs.
_MAX_WAIT_S = 60.0
_MAX_WAIT_FACTOR = 10.0


def misfits(schema: dict[str, Any], value: Any, limit_s: float = DEFAULT_LIMIT_S) -> list[Misfit]:
    """Return what in a JSON value violates a schema: paths and messages, the first hundred.

    Raises:
        SchemaInvalid: the schema is invalid.
        TookTooLong: the check takes more than `limit_s` seconds of CPU time.
        Unchecked: the value cannot be checked.
    """
    try:
        schema_text = encode(schema)
    except (ValueError, TypeError, RecursionError) as error:
        raise SchemaInvalid(f"the schema is not JSON: {error}") from error
    try:
        value_text = json.dumps(value)
    except RecursionError as error:
        raise Unchecked(str(error)) from error
    is_small = len(schema_text) * len(value_text) <= _SMALL
    if is_small and not any(word in schema_text for word in _COSTLY):
        return checking.misfits(schema_text, value)
    question = json.dumps({"schema": schema_text, "limit_s": limit_s})
    # The value is encoded already.
    question = f'{question[:-1]}, "value": {value_text}}}'
    return [(path, message) for path, message in _POOL.ask(question, limit_s)["misfits"]]


def matches(pattern: str, text: str, limit_s: float = DEFAULT_LIMIT_S) -> bool:
    """Return whether the pattern matches anywhere in the text.

    Raises:
        TookTooLong: that takes more than `limit_s` seconds of CPU time.
        Unchecked: the text cannot be searched.
    """
    question = json.dumps({"pattern": pattern, "text": text, "limit_s": limit_s})
    return bool(_POOL.ask(question, limit_s)["found"])


class TookTooLong(Unchecked):
    """The check was stopped; the message says after how long, and where."""

    def __init__(self, limit_s: float, busy_with: str = "") -> None:
        self.limit_s = limit_s
        what = f": {busy_with}" if busy_with else ""
        super().__init__(f"could not be checked within {limit_s:g} s{what}")


class _Died(Exception):
    """The process died; a new one may succeed."""


class _Helper:
    """One process, used by one thread at a time."""

    def __init__(self) -> None:
        """Start the process.

        Raises:
            OSError: it cannot be started.
        """
        self._channel, theirs = multiprocessing.Pipe()
        with theirs:
            self._process = subprocess.Popen(
                # -P: don't import from a user's directory that happens to be called `scheduler`.
                [sys.executable, "-P", "-m", "sleipnir.scheduler.schema_checks.helper"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # In our session, like everything that ends by itself with us, but not in our
                # group: signals of the terminal are not for it.
                process_group=0,
            )

    def ask(self, question: str, limit_s: float) -> dict[str, Any]:
        """Return the answer to a question.

        Raises:
            TookTooLong: there is none.
            _Died: the process died.
        """
        try:
            self._channel.send_bytes(question.encode())
            if not self._channel.poll(_MAX_WAIT_S + _MAX_WAIT_FACTOR * limit_s):
                raise TookTooLong(limit_s)
            answer: dict[str, Any] = json.loads(self._channel.recv_bytes())
        except (EOFError, OSError) as error:
            raise _Died(f"the process that checked it exited: {self._process.poll()}") from error
        return answer

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> None:
        self._channel.close()
        self._process.kill()
        self._process.wait()


class _Pool:
    """As many processes as are used at once, up to the number of cores."""

    def __init__(self) -> None:
        self._idle: list[_Helper] = []
        self._places = threading.BoundedSemaphore(max(2, os.cpu_count() or 1))

    def ask(self, question: str, limit_s: float) -> dict[str, Any]:
        """Return the answer to a question.

        Raises:
            SchemaInvalid, TookTooLong, Unchecked: there is none.
        """
        with self._places:
            try:
                answer = self._ask(question, limit_s)
            except _Died:
                answer = self._ask_again(question, limit_s)
        if "late" in answer:
            raise TookTooLong(limit_s, answer["late"])
        if "invalid" in answer:
            raise SchemaInvalid(answer["invalid"])
        if "unchecked" in answer:
            raise Unchecked(answer["unchecked"])
        return answer

    def _ask(self, question: str, limit_s: float) -> dict[str, Any]:
        try:
            helper = self._idle.pop()
        except IndexError:
            helper = _started()
        try:
            answer = helper.ask(question, limit_s)
        except BaseException:
            helper.end()
            raise
        self._idle.append(helper)
        return answer

    def _ask_again(self, question: str, limit_s: float) -> dict[str, Any]:
        try:
            return self._ask(question, limit_s)
        except _Died as error:
            raise Unchecked(str(error)) from error

    def close(self) -> None:
        """Stop the idle processes."""
        with suppress(IndexError):
            while True:
                self._idle.pop().end()


def _started() -> _Helper:
    try:
        return _Helper()
    except OSError as error:
        raise Unchecked(f"cannot start a process to check it: {error}") from error


_POOL = _Pool()
atexit.register(_POOL.close)
