"""Recorded and replayed embeddings: one call per text, however the texts were batched."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy

from sleipnir.scheduler.runs.model import NO_USAGE, Usage
from sleipnir.scheduler.runs.recording import RecordedCall
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.recordings import Recordings
from sleipnir.worker.llm.caller import Caller
from sleipnir.worker.llm.client import Embedded, ModelCallFailed
from sleipnir.worker.llm.recording.redaction import redacted
from sleipnir.worker.llm.recording.replay import Replay

_VECTOR = "embedding"
# How recordings hold vectors, in base64.
_FLOATS = numpy.dtype("<f4")


def record_embeddings(
    recordings: Recordings,
    model: str,
    vectors: Mapping[str, Sequence[float]],
    caller: Caller,
    usage: Usage = NO_USAGE,
) -> None:
    """Add the vectors of texts to the recording of their run, if there is one."""
    if not caller.recorded:
        return
    for number, (text, vector) in enumerate(vectors.items()):
        data = base64.b64encode(numpy.asarray(vector, _FLOATS).tobytes()).decode()
        call = RecordedCall({_VECTOR: data}, request=_request(model, text, caller))
        call = replace(call, node=caller.node, usage=NO_USAGE if number else usage)
        # The call counts even if it cannot be recorded, as when Redis is full.
        with contextlib.suppress(RedisError):
            recordings.add(caller.root, f"{caller.key}:{number}", call)


def replay_embeddings(
    replay: Replay, model: str, texts: Sequence[str], caller: Caller, digest: str
) -> Embedded:
    """Return the recorded vectors of texts; they cost nothing.

    Raises:
        ModelCallFailed: there are none.
    """
    vectors = []
    for text in texts:
        reply = replay.exactly(
            _request(model, text, caller), caller, digest, "embedding of this text"
        )
        try:
            data = base64.b64decode(reply[_VECTOR])
            vectors.append(numpy.frombuffer(data, _FLOATS).tolist())
        except (KeyError, TypeError, ValueError) as error:
            raise ModelCallFailed(f"the recorded embedding cannot be read: {error}") from error
    return Embedded(vectors, NO_USAGE)


def _request(model: str, text: str, caller: Caller) -> dict[str, Any]:
    asked: dict[str, Any] = redacted({"model": model, "input": text}, caller.secrets)
    return asked
