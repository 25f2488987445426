"""Streams what a model says while it says it: several times a second, with secrets masked.

Thoughts in tags before an answer are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from time import monotonic

from sleipnir.scheduler.config.masking import mask
from sleipnir.worker.llm.thoughts import answer_begins, separated

# Often enough to read along, and a negligible load on Redis.
INTERVAL_S = 0.1

# Cuts no word in two; languages without blanks between words may be cut anywhere.
_BREAK = re.compile(r"\s|[^\x00-\x7f]")


class TokenStream:
    """A listener that publishes all the text it receives, with secrets masked."""

    def __init__(
        self,
        publish: Callable[[str], None],
        secrets: Sequence[str] = (),
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._publish = publish
        self._secrets = secrets
        self._clock = clock
        # A secret that contains a break must be held back until it is complete, or it is not
        # masked.
        self._held_back = max((len(s) for s in secrets if _BREAK.search(s)), default=0)
        self._pending = ""
        self._is_answer = False  # the answer has begun
        self._publish_at = clock()

    def on_text(self, text: str) -> None:
        """Take the next piece of the reply."""
        self._pending += text
        now = self._clock()
        if now >= self._publish_at:
            if self._drop_thoughts():
                self._pass_on(self._whole_words())
            # A long text without a break is scanned again each time, so leave pauses in between.
            took_s = self._clock() - now
            self._publish_at = now + INTERVAL_S + 10 * took_s

    def end(self) -> None:
        """Publish the rest: the reply is complete or was cut off."""
        if not self._drop_thoughts():
            self._pending = separated(self._pending, is_cut=True).answer
        self._pass_on(len(self._pending))
        self._pending, self._is_answer = "", False

    def _drop_thoughts(self) -> bool:
        """Return whether the answer has begun; drop what is before it."""
        begin = 0 if self._is_answer else answer_begins(self._pending)
        if begin is not None:
            self._pending, self._is_answer = self._pending[begin:], True
        return begin is not None

    def _whole_words(self) -> int:
        """Return how many characters can be published without revealing a part of a secret."""
        closed = self._pending[: max(0, len(self._pending) - self._held_back)]
        size = max((found.end() for found in _BREAK.finditer(closed)), default=0)
        parts = self._masked(self._pending[:size]) + self._masked(self._pending[size:])
        return size if parts == self._masked(self._pending) else 0

    def _pass_on(self, size: int) -> None:
        if size:
            self._publish(self._masked(self._pending[:size]))
            self._pending = self._pending[size:]

    def _masked(self, text: str) -> str:
        return mask(text, self._secrets)
