"""What a model call is going to use, as far as one can tell before it is made."""

from __future__ import annotations

import json
from dataclasses import field
from threading import Lock

from sleipnir.records import dataclass
from sleipnir.worker.llm.client import ModelRequest

# Of English text in most tokenizers; a rate limit needs no more than that.
_CHARACTERS_PER_TOKEN = 4
# What counts is the last few dozen replies.
_WEIGHT = 0.1


def prompt_tokens(request: ModelRequest) -> int:
    """A cheap estimate of a prompt's tokens."""
    parts = (*request.messages, *request.tools)
    characters = sum(len(json.dumps(part, ensure_ascii=False)) for part in parts)
    return characters // _CHARACTERS_PER_TOKEN + 1


@dataclass(slots=True)
class ReplyLengths:
    """How long each model's replies have been lately, as far as this worker has seen."""

    assumed: int  # of a model that has not replied yet
    _means: dict[str, float] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def expected(self, model: str) -> int:
        """The tokens of the model's next reply, if it is like the others."""
        return round(self._means.get(model, self.assumed))

    def saw(self, model: str, tokens: int) -> None:
        """A model replied."""
        with self._lock:
            mean = self._means.get(model, float(tokens))
            self._means[model] = mean + (tokens - mean) * _WEIGHT
