"""The reply cache: equal requests get the same reply, for as long as their nodes say."""

from __future__ import annotations

import contextlib
import json

from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.model import NO_USAGE
from sleipnir.scheduler.store.cached_replies import CachedReplies
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.worker.llm.caller import Caller
from sleipnir.worker.llm.client import ModelRequest, Reply
from sleipnir.worker.llm.recording.canonical import canonical, digest_of

USUAL_S = 86400.0


def kept_for_s(*wishes: bool | float | None) -> float | None:
    """Return how long to cache replies, by the first setting given; None: not at all."""
    wish = next((wish for wish in wishes if wish is not None), False)
    if isinstance(wish, bool):
        return USUAL_S if wish else None
    return wish


class ReplyCache:
    """The replies cached by all workers on one Redis."""

    def __init__(self, replies: CachedReplies) -> None:
        self._replies = replies

    def find(self, request: ModelRequest, caller: Caller) -> Reply | None:
        """Return the cached reply to an equal request; it costs nothing.

        A second attempt gets none, as the first may have failed because of this very reply.
        """
        if caller.cache_s is None or caller.attempt > 1:
            return None
        message = self._replies.find(_digest(request))
        if message is None:
            return None
        is_native = request.response_format is not None
        return Reply(json.loads(message), NO_USAGE, "cached", native=is_native)

    def keep(self, request: ModelRequest, caller: Caller, reply: Reply) -> None:
        """Cache a reply, unless it is blank or ended before the model was done."""
        if caller.cache_s is None or not reply.is_whole:
            return
        if not (reply.text.strip() or reply.calls):
            return
        # The reply counts even if it cannot be cached, as when Redis is full.
        with contextlib.suppress(RedisError):
            self._replies.keep(_digest(request), encode(reply.message), caller.cache_s)


def _digest(request: ModelRequest) -> str:
    return digest_of(canonical(request))
