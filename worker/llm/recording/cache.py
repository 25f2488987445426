"""Replies that are kept, and given again to whoever asks the same; the nodes say for how long."""

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
    """How long replies are kept, by the first wish that is one; None: not at all."""
    wish = next((wish for wish in wishes if wish is not None), False)
    if isinstance(wish, bool):
        return USUAL_S if wish else None
    return wish


class ReplyCache:
    """The replies that all workers on one Redis keep."""

    def __init__(self, replies: CachedReplies) -> None:
        self._replies = replies

    def find(self, request: ModelRequest, caller: Caller) -> Reply | None:
        """The reply to an equal request, at no cost.

        A second attempt finds none: it may have been this very reply that the first one could do
        nothing with.
        """
        if caller.cache_s is None or caller.attempt > 1:
            return None
        message = self._replies.find(_digest(request))
        return None if message is None else Reply(json.loads(message), NO_USAGE, "cached")

    def keep(self, request: ModelRequest, caller: Caller, reply: Reply) -> None:
        """Keep a reply, unless it is blank."""
        if caller.cache_s is None or not (reply.text.strip() or reply.calls):
            return
        # A reply that cannot be kept, in a full Redis, is still one that was paid for.
        with contextlib.suppress(RedisError):
            self._replies.keep(_digest(request), encode(reply.message), caller.cache_s)


def _digest(request: ModelRequest) -> str:
    return digest_of(canonical(request))
