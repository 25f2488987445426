"""`{{path}}` interpolation: one pass, no filters, no expressions, no escapes.

A node's templates are rendered at every visit, so each distinct text is compiled once.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

from sleipnir.graphs.errors import MissingReference, TextTooLong
from sleipnir.graphs.state import encode
from sleipnir.records import dataclass

Path: TypeAlias = tuple[str | int, ...]
Layer: TypeAlias = Mapping[str, Any]

# Default limit on the characters a template renders to: each reference may name a large value, and
# the next template the text that it became part of.
LONGEST_TEXT = 64 * 1024 * 1024

_REFERENCE = re.compile(r"\{\{([A-Za-z0-9_.\[\]]+)\}\}")
_SEGMENT = r"[A-Za-z0-9_]+(?:\[[0-9]+\])*"
_PATH = re.compile(rf"{_SEGMENT}(?:\.{_SEGMENT})*")
_STEP = re.compile(r"([A-Za-z0-9_]+)|\[([0-9]+)\]")
_IDENTIFIER = re.compile(r"[A-Za-z0-9_]+")


class MissingValue(Enum):
    """The type of `MISSING`."""

    MISSING = "missing"


# What a path resolves to if nothing is there; `None` is a value.
MISSING: Final = MissingValue.MISSING


@dataclass(frozen=True, slots=True)
class Reference:
    """A `{{…}}` that the scanner accepts; `start` and `end` are offsets of the braces."""

    text: str  # what is between the braces
    path: Path | None  # None: malformed, and so always missing
    start: int
    end: int

    @property
    def root(self) -> str | None:
        """The state key that it reads; None if malformed."""
        return str(self.path[0]) if self.path else None


@dataclass(frozen=True, slots=True)
class _Compiled:
    parts: tuple[str | Reference, ...]
    references: tuple[Reference, ...]
    # Set if the template is a single reference, apart from blanks; its value then keeps its type.
    sole: Reference | None


def is_identifier(key: str) -> bool:
    """Return whether a template can name this state key."""
    return _IDENTIFIER.fullmatch(key) is not None


def references(template: str) -> tuple[Reference, ...]:
    """Return all references that the scanner finds, malformed ones included, in order."""
    return _compile(template).references


def resolve(path: Path, layers: Sequence[Layer]) -> Any | Literal[MissingValue.MISSING]:
    """Return the value at `path` in the first layer that has its root key, or `MISSING`."""
    root = path[0]
    for layer in layers:
        if root in layer:
            return _descend(layer[str(root)], path)
    return MISSING


def render_strict(template: str, *layers: Layer, limit: int = LONGEST_TEXT) -> str:
    """Render a template in which every reference must resolve.

    Raises:
        MissingReference: naming all references that are missing.
        TextTooLong: the text would have more than `limit` characters.
    """
    text, missing = _render(_compile(template), layers, limit)
    if missing:
        raise MissingReference(missing)
    return text


def render_lenient(template: str, *layers: Layer, limit: int = LONGEST_TEXT) -> str:
    """Render a template; missing references become empty.

    Raises:
        TextTooLong: the text would have more than `limit` characters.
    """
    text, _ = _render(_compile(template), layers, limit)
    return text


def evaluate_strict(template: str, *layers: Layer, limit: int = LONGEST_TEXT) -> Any:
    """Return the referenced value itself if the template is a single reference, else the text.

    Raises:
        MissingReference: naming all references that are missing.
        TextTooLong: the text would have more than `limit` characters.
    """
    value, missing = _evaluate(_compile(template), layers, limit)
    if missing:
        raise MissingReference(missing)
    return value


def evaluate_lenient(template: str, *layers: Layer, limit: int = LONGEST_TEXT) -> Any:
    """Like `evaluate_strict`, with `""` in place of missing references.

    Raises:
        TextTooLong: the text would have more than `limit` characters.
    """
    value, _ = _evaluate(_compile(template), layers, limit)
    return value


@lru_cache(maxsize=4096)
def _compile(template: str) -> _Compiled:
    parts: list[str | Reference] = []
    found: list[Reference] = []
    end = 0
    for match in _REFERENCE.finditer(template):
        if match.start() > end:
            parts.append(template[end : match.start()])
        reference = Reference(match[1], _parse_path(match[1]), *match.span())
        parts.append(reference)
        found.append(reference)
        end = match.end()
    if end < len(template):
        parts.append(template[end:])
    return _Compiled(tuple(parts), tuple(found), _sole_reference(parts, found))


def _sole_reference(parts: list[str | Reference], found: list[Reference]) -> Reference | None:
    if len(found) != 1:
        return None
    only_blanks = all(isinstance(part, Reference) or part.isspace() for part in parts)
    return found[0] if only_blanks else None


def _parse_path(text: str) -> Path | None:
    if _PATH.fullmatch(text) is None:
        return None
    return tuple(key or _index(digits) for key, digits in _STEP.findall(text))


def _index(digits: str) -> int:
    # Python refuses to parse integers of thousands of digits; no list is that long anyway.
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) < 19 else sys.maxsize


def _descend(value: Any, path: Path) -> Any | Literal[MissingValue.MISSING]:
    for step in path[1:]:
        if isinstance(step, str):
            if not isinstance(value, dict) or step not in value:
                return MISSING
        elif not isinstance(value, list) or step >= len(value):
            return MISSING
        value = value[step]
    return value


def _render(compiled: _Compiled, layers: Sequence[Layer], limit: int) -> tuple[str, list[str]]:
    texts: list[str] = []
    missing: list[str] = []
    length = 0
    for part in compiled.parts:
        text = part if isinstance(part, str) else _text(part, layers)
        if text is MISSING:
            assert isinstance(part, Reference)
            if part.text not in missing:
                missing.append(part.text)
            continue
        length += len(text)
        if length > limit:
            raise TextTooLong(limit)
        texts.append(text)
    return "".join(texts), missing


def _text(reference: Reference, layers: Sequence[Layer]) -> str | Literal[MissingValue.MISSING]:
    value = MISSING if reference.path is None else resolve(reference.path, layers)
    if value is MISSING:
        return MISSING
    return value if isinstance(value, str) else encode(value)


def _evaluate(compiled: _Compiled, layers: Sequence[Layer], limit: int) -> tuple[Any, list[str]]:
    sole = compiled.sole
    if sole is None or sole.path is None:
        return _render(compiled, layers, limit)
    value = resolve(sole.path, layers)
    return ("", [sole.text]) if value is MISSING else (value, [])
