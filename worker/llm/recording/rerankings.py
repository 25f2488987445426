"""Recorded and replayed rerankings."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from sleipnir.scheduler.runs.model import NO_USAGE
from sleipnir.scheduler.runs.recording import RecordedCall
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.recordings import Recordings
from sleipnir.worker.llm.caller import Caller
from sleipnir.worker.llm.client import ModelCallFailed, Reranked
from sleipnir.worker.llm.recording.redaction import redacted
from sleipnir.worker.llm.recording.replay import Replay

_ORDER = "order"


def request_of(
    model: str, query: str, texts: Sequence[str], top_n: int, caller: Caller
) -> dict[str, Any]:
    """Return a request in the form recordings use."""
    asked = {"model": model, "query": query, "documents": list(texts), "top_n": top_n}
    request: dict[str, Any] = redacted(asked, caller.secrets)
    return request


def record_reranking(
    recordings: Recordings, request: dict[str, Any], reranked: Reranked, caller: Caller
) -> None:
    """Add an order of texts to the recording of its run, if there is one."""
    if not caller.recorded:
        return
    reply = {_ORDER: [list(place) for place in reranked.order]}
    call = RecordedCall(reply, request=request, node=caller.node, usage=reranked.usage)
    # The call counts even if it cannot be recorded, as when Redis is full.
    with contextlib.suppress(RedisError):
        recordings.add(caller.root, caller.key, call)


def replay_reranking(
    replay: Replay, request: dict[str, Any], caller: Caller, digest: str
) -> Reranked:
    """Return a recorded order; it costs nothing.

    Raises:
        ModelCallFailed: there is none.
    """
    reply = replay.exactly(request, caller, digest, "order of these texts")
    try:
        order = [(int(place), float(score)) for place, score in reply[_ORDER]]
    except (KeyError, TypeError, ValueError) as error:
        raise ModelCallFailed(f"the recorded order cannot be read: {error}") from error
    if any(place not in range(len(request["documents"])) for place, _ in order):
        raise ModelCallFailed("the recorded order is of other texts")
    return Reranked(order, NO_USAGE)
