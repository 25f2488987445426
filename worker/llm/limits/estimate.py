"""Estimates what a model call will use, before it is made."""

from __future__ import annotations

import json
from dataclasses import field
from threading import Lock

from sleipnir.records import dataclass
from sleipnir.worker.llm.attachments import DIGEST, documents_in
from sleipnir.worker.llm.client import ModelRequest

# In English text with most tokenizers, which is exact enough for a rate limit. Other scripts take
# up to a token and more for a character: about two for each byte by which UTF-8 exceeds one.
_CHARACTERS_PER_TOKEN = 4
_CHARACTERS_PER_FURTHER_BYTE = 2
# Weights roughly the last few dozen replies.
_WEIGHT = 0.1


def prompt_tokens(request: ModelRequest) -> int:
    """Estimate a prompt's tokens cheaply."""
    files = sum(
        request.attachments[each[DIGEST]].tokens() for each in documents_in(request.messages)
    )
    texts = [json.dumps(part, ensure_ascii=False) for part in (*request.messages, *request.tools)]
    characters = sum(map(len, texts))
    further = sum(len(text.encode(errors="surrogatepass")) for text in texts) - characters
    characters += further * _CHARACTERS_PER_FURTHER_BYTE
    return characters // _CHARACTERS_PER_TOKEN + 1 + files


@dataclass(slots=True)
class ReplyLengths:
    """Mean reply lengths by model, as seen by this worker lately."""

    assumed: int  # for a model that has not replied yet
    _means: dict[str, float] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def expected(self, model: str) -> int:
        """Return the tokens expected of the model's next reply."""
        return round(self._means.get(model, self.assumed))

    def saw(self, model: str, tokens: int) -> None:
        """Take the length of a reply into account."""
        with self._lock:
            mean = self._means.get(model, float(tokens))
            self._means[model] = mean + (tokens - mean) * _WEIGHT
