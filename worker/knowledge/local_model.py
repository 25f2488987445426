"""The static word embeddings of the extra `local`: without a network, a key or usage.

The vector of a text is the mean of its tokens' vectors, except those of common words and marks,
which would make all texts similar. In a query, rare words in the searched knowledge base count
more. Weights and tokenizer are data of the `wordllama` package, which is not imported itself: it
would configure logging and load much else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sleipnir.graphs.knowledge.build_settings import LOCAL_MISSING, LOCAL_REMEDY
from sleipnir.lazy import lazy_imports
from sleipnir.worker.knowledge.errors import KnowledgeFailed
from sleipnir.worker.knowledge.vectors import Matrix, normalised
from sleipnir.worker.knowledge.words import COMMON_WORDS

# Lazy: parts of the extra, which may be missing.
with lazy_imports():
    import tokenizers
    from safetensors import numpy as safetensors

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WEIGHTS = Path("weights", "l2_supercat_256.safetensors")
_TOKENIZER = Path("tokenizers", "l2_supercat_tokenizer_config.json")
_TENSOR = "embedding.weight"
_WORD = re.compile(r"\w+")
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")  # of a character without a token
_MISSING = f"{LOCAL_MISSING}: {LOCAL_REMEDY}"


def embed(texts: Sequence[str]) -> Matrix:
    """Return the vectors of texts, of length 1; zero for a text without a meaningful word.

    Raises:
        KnowledgeFailed: the extra is missing or incomplete.
    """
    tokenizer, weights, telling = _model()
    vectors = np.zeros((len(texts), weights.shape[1]), np.float32)
    for row, text in zip(vectors, texts, strict=True):
        # One by one: batches would start threads of the library's.
        ids = np.asarray(tokenizer.encode(_encodable(text), add_special_tokens=False).ids, np.intp)
        if len(ids := ids[telling[ids]]):
            weights[ids].mean(axis=0, dtype=np.float32, out=row)
    return normalised(vectors)


def embed_query(texts: Sequence[str], rarity: Callable[[str], float]) -> Matrix:
    """Return the vectors of a query's pieces; raises as `embed`.

    Args:
        rarity: of a word in what is searched, at least 0.
    """
    tokenizer, weights, telling = _model()
    vectors = np.zeros((len(texts), weights.shape[1]), np.float32)
    for row, given in zip(vectors, texts, strict=True):
        text = _encodable(given)
        encoded = tokenizer.encode(text, add_special_tokens=False)
        ids = np.asarray(encoded.ids, np.intp)
        counts = telling[ids] * _counts(text, encoded.offsets, rarity)
        np.matmul(counts.astype(np.float32), weights[ids].astype(np.float32), out=row)
    return normalised(vectors)


def _counts(
    text: str, spans: Sequence[tuple[int, int]], rarity: Callable[[str], float]
) -> NDArray[np.float64]:
    """Return the weight of each token of a text: the square of its rarest word's rarity.

    The vectors that are searched weight all words equally, so this has to stand for the rarity of a
    word in both.
    """
    of_characters = np.zeros(len(text))
    for word in _WORD.finditer(text):
        of_characters[slice(*word.span())] = rarity(word[0])
    return np.array([of_characters[slice(*span)].max(initial=0) ** 2 for span in spans])


@cache
def _model() -> tuple[Any, NDArray[np.float16], NDArray[np.bool_]]:
    """Return the tokenizer, a vector for each token, and whether the token is meaningful."""
    found = find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        raise KnowledgeFailed(_MISSING)
    directory = Path(found.submodule_search_locations[0])
    try:
        weights = safetensors.load_file(directory / _WEIGHTS)[_TENSOR]
        tokenizer = tokenizers.Tokenizer.from_file(str(directory / _TOKENIZER))
    except ImportError as error:
        raise KnowledgeFailed(_MISSING) from error
    except Exception as error:  # tokenizers raises nothing more specific
        raise KnowledgeFailed(f"the model of the extra 'local' cannot be read: {error}") from error
    tells = [_tells(tokenizer.id_to_token(number) or "") for number in range(len(weights))]
    return tokenizer, weights, np.array(tells)


def _tells(token: str) -> bool:
    word = token.strip("\N{LOWER ONE EIGHTH BLOCK}").lower()  # this tokenizer's blank
    return any(map(str.isalnum, word)) and word not in COMMON_WORDS and not _BYTE.fullmatch(token)


def _encodable(text: str) -> str:
    """Return a text without lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode("utf-8")
