"""Passes on what a model says while it says it: a few times a second, and no secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from time import monotonic

from sleipnir.worker.masking import mask

# Often enough to read along, and far from what Redis would notice.
INTERVAL_S = 0.1

# Where no word is cut in two; languages that put no blanks between words may be cut anywhere.
_BREAK = re.compile(r"\s|[^\x00-\x7f]")


class TokenStream:
    """A listener that says what it hears, to the last word; secrets are masked."""

    def __init__(
        self,
        publish: Callable[[str], None],
        secrets: Sequence[str] = (),
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._publish = publish
        self._secrets = secrets
        self._clock = clock
        # One that may span several words has to be seen whole before it can be masked.
        self._held_back = max((len(s) for s in secrets if _BREAK.search(s)), default=0)
        self._pending = ""
        self._publish_at = clock()

    def on_text(self, text: str) -> None:
        """The reply goes on with this text."""
        self._pending += text
        now = self._clock()
        if now >= self._publish_at:
            self._pass_on(self._whole_words())
            # A long text without a break is looked at again and again: not all the time.
            took_s = self._clock() - now
            self._publish_at = now + INTERVAL_S + 10 * took_s

    def end(self) -> None:
        """The reply is complete, or broke off."""
        self._pass_on(len(self._pending))

    def _whole_words(self) -> int:
        """How much can be said already: nothing of what may turn out to be a secret."""
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
