"""Finds tools by their purpose: BM25 over their names and descriptions.

A server has tens of tools and its list may change at any time, so an index is not worth keeping.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import log

from sleipnir.worker.mcp.tool import McpTool

# The usual values: how soon repeating a word stops counting, and how much length counts.
_K1 = 1.2
_B = 0.75

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W_]+")


def search(tools: Sequence[McpTool], server: str, query: str, top_k: int) -> list[McpTool]:
    """Return the best matching tools, best first; if none matches, the first ones listed."""
    documents = [Counter(_words(f"{t.name} {t.description} server:{server}")) for t in tools]
    scores = _scores(documents, set(_words(query)))
    ranked = sorted(range(len(tools)), key=lambda index: -scores[index])
    fitting = [tools[index] for index in ranked if scores[index] > 0]
    # A query need not share a word with the few tools of a small server.
    return (fitting or list(tools))[:top_k]


def _scores(documents: Sequence[Counter[str]], words: set[str]) -> list[float]:
    lengths = [document.total() for document in documents]
    average = sum(lengths) / len(lengths) if lengths else 1.0
    scores = [0.0] * len(documents)
    for word in words:
        holders = sum(word in document for document in documents)
        rarity = log(1 + (len(documents) - holders + 0.5) / (holders + 0.5))
        for index, document in enumerate(documents):
            count = document[word]
            norm = _K1 * (1 - _B + _B * lengths[index] / average)
            scores[index] += rarity * count * (_K1 + 1) / (count + norm)
    return scores


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(_HUMP.sub(" ", text))]
