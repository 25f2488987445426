"""The static word embeddings of the extra `local`: without a network, a key or usage.

The vector of a text is the mean of its tokens' vectors. Weights and tokenizer are data of the
`wordllama` package, which is not imported itself: it would configure logging and load much else.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sleipnir.graphs.knowledge.build_settings import LOCAL_MISSING, LOCAL_REMEDY
from sleipnir.lazy import lazy_imports
from sleipnir.worker.knowledge.errors import KnowledgeFailed
from sleipnir.worker.knowledge.vectors import Matrix, normalised

# Of the extra: they may be missing.
with lazy_imports():
    import tokenizers
    from safetensors import numpy as safetensors

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WEIGHTS = Path("weights", "l2_supercat_256.safetensors")
_TOKENIZER = Path("tokenizers", "l2_supercat_tokenizer_config.json")
_TENSOR = "embedding.weight"
_MISSING = f"{LOCAL_MISSING}: {LOCAL_REMEDY}"


def embed(texts: Sequence[str]) -> Matrix:
    """The vectors of texts, of length 1; zero of a text without a token.

    Raises:
        KnowledgeFailed: the extra is not installed, or not whole.
    """
    tokenizer, weights = _model()
    vectors = np.zeros((len(texts), weights.shape[1]), np.float32)
    for row, text in zip(vectors, texts, strict=True):
        # One by one: its batches would use threads of their own.
        if ids := tokenizer.encode(_encodable(text), add_special_tokens=False).ids:
            weights[ids].mean(axis=0, dtype=np.float32, out=row)
    return normalised(vectors)


@cache
def _model() -> tuple[Any, NDArray[np.float16]]:
    found = find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        raise KnowledgeFailed(_MISSING)
    directory = Path(found.submodule_search_locations[0])
    try:
        weights = safetensors.load_file(directory / _WEIGHTS)[_TENSOR]
        return tokenizers.Tokenizer.from_file(str(directory / _TOKENIZER)), weights
    except ImportError as error:
        raise KnowledgeFailed(_MISSING) from error
    except Exception as error:  # tokenizers raises nothing narrower
        raise KnowledgeFailed(f"the model of the extra 'local' cannot be read: {error}") from error


def _encodable(text: str) -> str:
    """A text without what UTF-8 does not have: half a surrogate pair."""
    return text.encode("utf-8", "replace").decode("utf-8")
