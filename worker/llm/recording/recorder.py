"""Records what models are asked and reply, in runs submitted with recording on."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from sleipnir.scheduler.runs.recording import RecordedCall
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.recordings import Recordings
from sleipnir.worker.llm.caller import Caller
from sleipnir.worker.llm.client import ModelCallFailed, ModelRequest, Reply
from sleipnir.worker.llm.recording.canonical import canonical
from sleipnir.worker.llm.recording.redaction import redacted


class Recorder:
    """Adds calls to the recording of their run, with secrets redacted."""

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings

    def replied(self, request: ModelRequest, caller: Caller, reply: Reply) -> None:
        """Record a reply."""
        if caller.recorded:
            message = redacted(dict(reply.message), caller.secrets)
            self._add(
                request.answered_by(reply),
                caller,
                RecordedCall(
                    message,
                    usage=reply.usage,
                    finish=reply.finish,
                    economy=reply.batch is not None,
                ),
            )

    def failed(self, request: ModelRequest, caller: Caller, failure: ModelCallFailed) -> None:
        """Record a failure, so that a replay takes the same course."""
        if caller.recorded:
            self._add(
                request, caller, RecordedCall(error=redacted(failure.message, caller.secrets))
            )

    def _add(self, request: ModelRequest, caller: Caller, call: RecordedCall) -> None:
        asked = redacted(canonical(request), caller.secrets)
        call = replace(call, request=asked, node=caller.node)
        # The call counts even if it cannot be recorded, as when Redis is full.
        with contextlib.suppress(RedisError):
            self._recordings.add(caller.root, caller.key, call)
