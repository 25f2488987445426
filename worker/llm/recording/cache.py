"""The reply cache: equal requests get the same reply, for as long as their nodes say.

Of equal calls under way at the same time only one is made, the others wait for its reply.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from sleipnir.graphs.state import encode
from sleipnir.scheduler.errors import TransitionBroken
from sleipnir.scheduler.limits.records import visit_of
from sleipnir.scheduler.process.periodic import repeat
from sleipnir.scheduler.runs.model import NO_USAGE
from sleipnir.scheduler.store.cached_replies import LEASE_S, CachedReplies
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.worker.llm.caller import Caller, MustWait
from sleipnir.worker.llm.client import ModelRequest, Reply
from sleipnir.worker.llm.recording.canonical import canonical, digest_of

USUAL_S = 86400.0
_RENEWALS_PER_LEASE = 3


def kept_for_s(*wishes: bool | float | None) -> float | None:
    """Return how long to cache replies, by the first setting given; None: not at all."""
    wish = next((wish for wish in wishes if wish is not None), False)
    if isinstance(wish, bool):
        return USUAL_S if wish else None
    return wish


class ReplyCache:
    """The replies cached by all workers on one Redis.

    Args:
        wake: called with run and visit of a call that has waited for an equal one.
    """

    def __init__(self, replies: CachedReplies, wake: Callable[[str, str], bool]) -> None:
        self._replies = replies
        self._wake = wake
        # Digests of the calls under way here, by call.
        self._under_way: dict[str, str] = {}
        self._start = threading.Lock()
        self._renewing: threading.Thread | None = None

    def find(self, request: ModelRequest, caller: Caller) -> Reply | None:
        """Return the reply to an equal request, which costs nothing; None: make the call.

        A second attempt gets none, as the first may have failed because of this very reply.

        Raises:
            MustWait: an equal call is under way.
        """
        if caller.cache_s is None or caller.attempt > 1:
            return None
        if not caller.shares:
            kept = self._replies.kept(_digest(request))
            return None if kept is None else _known(request, kept, "cached")
        found = self._replies.find(_digest(request), caller.key)
        if found.verdict == "wait":
            raise MustWait(found.wait_s, "an equal call is under way")
        if found.verdict == "make":
            return None
        return _known(request, found.reply, found.verdict)

    @contextmanager
    def asking(self, request: ModelRequest, caller: Caller) -> Iterator[Callable[[Reply], None]]:
        """Ask a model, while equal calls wait; yield a function that takes the reply.

        It keeps the reply, unless that is blank or ended before the model was done, and gives it to
        those who wait. Without a reply, the next of them is made.
        """
        if caller.cache_s is None:
            yield lambda _reply: None
            return
        kept_s, digest = caller.cache_s, _digest(request)
        replies: list[Reply] = []
        if caller.attempt == 1 and caller.shares:  # else equal calls do not wait for it
            self._renew(caller.key, digest)
        try:
            yield replies.append
        finally:
            self._under_way.pop(caller.key, None)
            text = next((encode(each.message) for each in replies if _may_be_kept(each)), "")
            # The reply counts even if it cannot be cached, as when Redis is full.
            with contextlib.suppress(RedisError, TransitionBroken):
                self._wake_waiting(self._replies.end(digest, caller.key, text, kept_s), text)

    def _wake_waiting(self, calls: Sequence[str], reply: str) -> None:
        for call in calls:
            is_woken = self._wake(*visit_of(call))
            if is_woken and not reply:
                return  # this one is made, and wakes the others

    def _renew(self, call: str, digest: str) -> None:
        self._under_way[call] = digest
        with self._start:
            if self._renewing is None:
                self._renewing = repeat(self._renew_all, LEASE_S / _RENEWALS_PER_LEASE, "replies")

    def _renew_all(self) -> None:
        if digests := list(self._under_way.values()):
            self._replies.renew(digests)


def _known(request: ModelRequest, text: str, source: Literal["cached", "shared"]) -> Reply:
    is_native = request.response_format is not None
    return Reply(json.loads(text), NO_USAGE, source, native=is_native)


def _may_be_kept(reply: Reply) -> bool:
    return reply.is_whole and bool(reply.text.strip() or reply.calls)


def _digest(request: ModelRequest) -> str:
    return digest_of(canonical(request))
