"""Restricts what whoosh unpickles to its own data, as indexes come from Redis.

Its files contain pickles, and a pickle may call anything. Those of an index need five names;
schemas, which would need many, are passed to whoosh rather than read.
"""

from __future__ import annotations

import io
import pickle
from types import SimpleNamespace
from typing import IO, Any

import whoosh.codec.whoosh3
import whoosh.columns
import whoosh.filedb.structfile
import whoosh.formats
import whoosh.index

_ALLOWED = frozenset(
    {
        ("whoosh.codec.whoosh3", "W3Segment"),
        ("whoosh.codec.whoosh3", "W3Codec"),
        ("collections", "defaultdict"),
        ("builtins", "int"),
        ("__builtin__", "int"),
        ("_codecs", "encode"),
    }
)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"refused {module}.{name}")
        return super().find_class(module, name)


def _load(file: IO[bytes]) -> Any:
    try:
        return _Unpickler(file).load()
    except Exception:
        file.close()  # whoosh would leave it open
        raise


def _loads(data: bytes) -> Any:
    return _load(io.BytesIO(data))


def restrict() -> None:
    """Restrict whoosh's unpickling in this process from now on."""
    for module in (whoosh.codec.whoosh3, whoosh.columns, whoosh.formats):
        module.loads = _loads
    whoosh.filedb.structfile.load_pickle = _load
    whoosh.index.pickle = SimpleNamespace(**{**vars(pickle), "loads": _loads})
    # Formats of old versions, with unpicklers of their own.
    whoosh.index.toc_loaders = {}
