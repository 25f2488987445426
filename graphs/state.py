"""A run's state: JSON text per top-level key, decoded only when it is read."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from math import isfinite
from typing import Any, NoReturn

# The state key of the prompt.
PROMPT_KEY = "initial_prompt"
# Levels of lists and objects in a value from outside, as JSON is read and written recursively.
DEEPEST = 200

# Kept, as `json.dumps` would create an encoder each time.
_compact = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_compact_ascii = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def encode(value: Any) -> str:
    """Encode a JSON value as compact text: no blanks, non-ASCII as is, key order kept.

    Raises:
        ValueError: for NaN, infinities, and values that JSON does not have.
    """
    text = _compact(value)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates can be in JSON text as escapes only
        return _compact_ascii(value)
    return text


def decode(text: str) -> Any:
    """Decode JSON text from outside into a value that `encode` can encode again.

    Raises:
        ValueError: it is not JSON, is nested too deeply, or has a number that JSON cannot hold.
    """
    too_deep = f"it is nested more than {DEEPEST} levels deep"
    try:
        value = json.loads(
            text, parse_constant=_refuse_number, parse_float=_finite, parse_int=_storable
        )
    except RecursionError:
        raise ValueError(too_deep) from None
    if text.count("[") + text.count("{") > DEEPEST and is_too_deep(value):
        raise ValueError(too_deep)
    return value


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a valid JSON number")


def _finite(text: str) -> float:
    number = float(text)
    return number if isfinite(number) else _refuse_number(text)


def _storable(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        limit = sys.get_int_max_str_digits()
        raise ValueError(f"it has an integer of more than {limit:,} digits") from None


def is_too_deep(value: Any) -> bool:
    """Return whether lists and objects are nested more than `DEEPEST` levels."""
    level = [value]
    for _ in range(DEEPEST + 1):
        inner = (
            each.values() if isinstance(each, dict) else each
            for each in level
            if isinstance(each, dict | list)
        )
        level = list(chain.from_iterable(inner))
    return bool(level)


class Snapshot(Mapping[str, Any]):
    """The state that one visit sees: a read-only mapping from key to JSON value.

    Holds the stored JSON texts and decodes each when first used, so a large value that is not read
    costs nothing. Callers must not change the values they get.
    """

    __slots__ = ("_decoded", "_texts")

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._decoded: dict[str, Any] = {}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Snapshot:
        """Return a snapshot of plain values."""
        return cls({key: encode(value) for key, value in values.items()})

    def __getitem__(self, key: str) -> Any:
        try:
            return self._decoded[key]
        except KeyError:
            value = self._decoded[key] = json.loads(self._texts[key])
            return value

    def __contains__(self, key: object) -> bool:
        return key in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def text(self, key: str) -> str | None:
        """Return the stored JSON text of a key, undecoded; None if absent."""
        return self._texts.get(key)

    def values_of(self, keys: Iterable[str]) -> list[Any]:
        """Return the values of these keys, decoded together: twice as fast for hundreds of keys."""
        found: list[Any] = json.loads(f"[{','.join(self._texts[key] for key in keys)}]")
        return found

    def extended(self, texts: Mapping[str, str]) -> Snapshot:
        """Return the snapshot with these keys added or replaced."""
        return Snapshot({**self._texts, **texts})

    def to_json(self) -> str:
        """Return the state as one compact JSON object with sorted keys, without decoding it."""
        pairs = (f"{encode(key)}:{self._texts[key]}" for key in sorted(self._texts))
        return "{" + ",".join(pairs) + "}"


def same_json(a: Any, b: Any) -> bool:
    """Return whether JSON values are equal in value and type: `1`, `1.0` and `true` differ."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_json(value, b[key]) for key, value in a.items())
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same_json, a, b))
    return bool(a == b)
