"""Requests to what may never answer, each of which has a time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread
from time import monotonic
from typing import TypeVar

_SILENT = "it does not answer"

T = TypeVar("T")


class TimedRequests:
    """Waits so long for an answer of one server; while that is silent, hardly anybody waits.

    Otherwise all threads of a process would wait for it soon. Safe for threads.

    Args:
        limit_s: for one request. For as long after one without an answer others fail at once; then
            one finds out whether the server answers again.
        now_s: the current time of a clock that never goes back.
    """

    def __init__(self, limit_s: float, now_s: Callable[[], float] = monotonic) -> None:
        self._limit_s = limit_s
        self._now_s = now_s
        self._silent_until: float | None = None
        self._lock = Lock()

    def ask(self, request: Callable[[], T]) -> T:
        """Return what a request returns, or raise what it raises.

        One without an answer goes on in a thread of its own, and its result is lost.

        Raises:
            TimeoutError: it got no answer in time, or another one did not lately.
        """
        self._require_answers()
        answer: Future[T] = Future()
        Thread(target=_settle, args=(answer, request), name="request", daemon=True).start()
        try:
            error = answer.exception(self._limit_s)
        except TimeoutError as late:
            error = late
        if isinstance(error, TimeoutError):
            self._silent_until = self._now_s() + self._limit_s
            raise TimeoutError(_SILENT) from error
        self._silent_until = None
        return answer.result()

    def _require_answers(self) -> None:
        with self._lock:
            if self._silent_until is None:
                return
            now_s = self._now_s()
            if now_s < self._silent_until:
                raise TimeoutError(_SILENT)
            self._silent_until = now_s + self._limit_s  # others do not wait beside this one


def _settle(answer: Future[T], request: Callable[[], T]) -> None:
    try:
        answer.set_result(request())
    except Exception as error:
        answer.set_exception(error)
