"""Results of tools without pictures, sounds and files: models read only text.

As base64 they would take many times the tokens of all else in a conversation, in every turn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# A text of this many characters without a blank is hardly one that a model can read.
_SHORTEST_RUN = 1_024
# In a field that may hold a medium: names and digests are shorter.
_SHORTEST_FIELD = 65
_BASE64 = re.compile(r"[A-Za-z0-9+/_\s-]++(?:=[=\s]*)?")
# Each alternative begins where a run of these characters begins, so that searching is linear.
_LINE = r"[A-Za-z0-9+/]{60,80}(?:\r?\n|\\r\\n|\\n)"
_ENCODED = re.compile(
    r"data:(?P<type>[\w.+-]{1,60}/[\w.+-]{1,100})(?:;[\w.+-]{1,40}=[^;,\s]{0,100}){0,5};base64,"
    r"(?P<named>[A-Za-z0-9+/_%-]*={0,2})"
    rf"|(?<![A-Za-z0-9+/=_-])(?P<bare>[A-Za-z0-9+/_-]{{{_SHORTEST_RUN},}}={{0,2}}"
    rf"|(?:{_LINE}){{14,}}[A-Za-z0-9+/]{{0,80}}={{0,2}})"
)
_LETTERS_OF_OTHERS = re.compile(r"[0-9a-f]+|[0-9A-F]+|[ACGTUN]+|[acgtun]+|[0-9]+|[-_]+")


def without_media(result: dict[str, Any]) -> dict[str, Any]:
    """Return a tool's result with the type and size of each medium in its place."""
    return {key: _value(part) for key, part in result.items()}


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return _ENCODED.sub(_replaced, value)
    if isinstance(value, list):
        return [_value(part) for part in value]
    if isinstance(value, dict):
        return _object(value)
    return value


def _object(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without its medium: a block of the protocol, or the contents of one."""
    data, blob = value.get("data"), value.get("blob")
    if value.get("type") in ("image", "audio") and isinstance(data, str):
        return {"type": "text", "text": _described(_type_of(value, str(value["type"])), data)}
    if isinstance(blob, str) and ("uri" in value or _is_encoded(blob)):
        left = {key: _value(part) for key, part in value.items() if key != "blob"}
        return {**left, "text": _described(_type_of(value, "blob"), blob)}
    if isinstance(data, str) and "mimeType" in value and _is_encoded(data):
        return {**value, "data": _described(_type_of(value, "data"), data)}
    return {key: _value(part) for key, part in value.items()}


def _is_encoded(text: str) -> bool:
    return len(text) >= _SHORTEST_FIELD and _BASE64.fullmatch(text) is not None


def _type_of(value: Mapping[str, Any], otherwise: str) -> str:
    declared = value.get("mimeType")
    return declared[:100] if isinstance(declared, str) and declared else otherwise


def _replaced(found: re.Match[str]) -> str:
    if found["type"]:
        return _described(found["type"], found["named"])
    run = found["bare"]
    # Zero bytes, as in pictures of one colour, are the letter A.
    is_readable = _LETTERS_OF_OTHERS.fullmatch(run) and set(run) != {"A"}
    return run if is_readable else _described("base64", run)


def _described(kind: str, encoded: str) -> str:
    digits = re.sub(r"\s+|\\[rn]", "", encoded.partition(";base64,")[2] or encoded).rstrip("=")
    return f"[{kind}, {len(digits) * 3 // 4:,} bytes]"
