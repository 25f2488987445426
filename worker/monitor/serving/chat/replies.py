"""How a reply reaches a client: when it is complete, or as a stream of server-sent events."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic
from typing import Protocol

from sleipnir.scheduler.runs.events import Event
from sleipnir.scheduler.runs.model import Usage
from sleipnir.worker.monitor.handlers.responses import ResponseWriter
from sleipnir.worker.monitor.problems import Problem
from sleipnir.worker.monitor.serving.chat.documents import (
    DONE,
    PING,
    CompletionHead,
    error_document,
    event_text,
)
from sleipnir.worker.monitor.serving.chat.spoken import SpokenText

# The longest silence of a stream, and the longest time between two looks at the run.
SILENCE_S = 15.0
LOOK_S = 5.0


class ChatReply(Protocol):
    """A reply that is being sent."""

    @property
    def wait_s(self) -> float:
        """How long it may wait for the next event."""

    async def begin(self) -> None:
        """Send what can be sent before anything is known."""

    async def tell(self, events: Iterable[Event]) -> None:
        """Send what the run's events add to it; called after each wait."""

    async def end(self, text: str, usage: Usage) -> None:
        """Send the rest of a complete text."""

    async def fail(self, problem: Problem) -> None:
        """Say why there is none."""


class WholeReply:
    """Sends nothing before the end."""

    wait_s = LOOK_S

    def __init__(self, handler: ResponseWriter, head: CompletionHead) -> None:
        self._handler = handler
        self._head = head

    async def begin(self) -> None:
        """Do nothing."""

    async def tell(self, events: Iterable[Event]) -> None:
        """Do nothing."""

    async def end(self, text: str, usage: Usage) -> None:
        self._handler.give_json(self._head.completion(text, usage))

    async def fail(self, problem: Problem) -> None:
        self._handler.set_status(problem.status)
        # Clients repeat what fails with such a status, which would start another run.
        self._handler.set_header("x-should-retry", "false")
        self._handler.give_json(error_document(problem))


class ChunkedReply:
    """Sends what a run's model says as it says it, and a comment when it is silent.

    Args:
        spoken: collects what it says.
        includes_usage: end with what the run has used.
    """

    def __init__(
        self,
        handler: ResponseWriter,
        head: CompletionHead,
        spoken: SpokenText,
        *,
        includes_usage: bool,
    ) -> None:
        self._handler = handler
        self._head = head
        self._includes_usage = includes_usage
        self._spoken = spoken
        self._sent_at = monotonic()

    @property
    def wait_s(self) -> float:
        return min(LOOK_S, SILENCE_S - (monotonic() - self._sent_at))

    async def begin(self) -> None:
        self._handler.set_header("Content-Type", "text/event-stream")
        self._handler.set_header("X-Accel-Buffering", "no")
        # Compression takes 256 KiB per stream, and holds pieces back.
        self._handler.set_header("Content-Encoding", "identity")
        await self._send(self._head.chunk({"role": "assistant", "content": ""}))

    async def tell(self, events: Iterable[Event]) -> None:
        text = "".join(map(self._spoken.add, events))
        if text:
            await self._send(self._head.chunk({"content": text}))
        elif monotonic() - self._sent_at >= SILENCE_S:
            await self._send(PING)

    async def end(self, text: str, usage: Usage) -> None:
        rest = self._spoken.rest_of(text)
        parts = [self._head.chunk({"content": rest})] if rest else []
        parts.append(self._head.chunk({}, "stop"))
        if self._includes_usage:
            parts.append(self._head.usage_chunk(usage))
        await self._send("".join([*parts, DONE]))

    async def fail(self, problem: Problem) -> None:
        await self._send(event_text(error_document(problem)) + DONE)

    async def _send(self, text: str) -> None:
        self._sent_at = monotonic()
        self._handler.write(text)
        await self._handler.flush()
