"""Kinds of settings: what users write for them in the environment, a flag or a file.

Each function declares a field of `Settings`; bounds are named as in pydantic. Texts and plain
numbers are read without pydantic, which is slow to import.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from sleipnir.graphs.document.queues import NAME
from sleipnir.graphs.state import decode
from sleipnir.records import dataclass

# Bytes, seconds or counts; instants that are computed from it still fit into whole milliseconds.
_MOST = 1e12

_BOUNDS: Mapping[str, Callable[[Any, Any], bool]] = {
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "lt": operator.lt,
}


@dataclass(frozen=True, slots=True)
class Form:
    """How a text becomes a value."""

    read: Callable[[str], Any] = str
    plain: re.Pattern[str] | None = None  # texts whose values are valid within their bounds
    is_number: bool = False  # whether numbers are read like their texts

    def value_of(self, written: Any, bounds: Mapping[str, float]) -> tuple[Any, bool]:
        """Return the value, and whether it is valid; if not, it remains to be checked."""
        if not isinstance(written, str | int | float if self.is_number else str):
            return written, False
        text = str(written)
        if self.plain is None:
            return self.read(text), False
        if isinstance(written, bool) or not self.plain.fullmatch(text):
            return written if self.is_number else self.read(text), False
        value = self.read(text)
        fits = all(_BOUNDS[bound](value, limit) for bound, limit in bounds.items())
        return (value, True) if fits else (written, False)


def text(default: str | None, *, description: str) -> Any:
    """Any text."""
    return _field(default, _TEXT, description)


def whole(default: int | None, *, description: str, **bounds: float) -> Any:
    """A whole number."""
    return _field(default, _WHOLE, description, bounds)


def decimal(default: float | None, *, description: str, **bounds: float) -> Any:
    """A number, with a fraction or not."""
    return _field(default, _DECIMAL, description, bounds)


def switch(default: bool, *, description: str) -> Any:
    """True or false, also in the words that pydantic takes for these."""
    return _field(default, Form(), description)


def choice(default: str, *, description: str) -> Any:
    """One of the words in its type."""
    return _field(default, Form(), description)


def paths(default: tuple[str, ...], *, description: str) -> Any:
    """A list, with colons between its entries."""
    return _field(default, _PATHS, description)


def names(default: tuple[str, ...] | None, *, description: str) -> Any:
    """A list, with commas between its entries."""
    return _field(default, _NAMES, description)


def queues(default: tuple[str, ...], *, description: str) -> Any:
    """A list of names of queues, with commas between them."""
    return _field(default, _QUEUES, description)


def mapping(default: Any, *, description: str) -> Any:
    """A mapping, or a record or list of records of settings; JSON in the environment."""
    return _field(default, Form(_from_json), description)


def _field(
    default: Any, form: Form, description: str, bounds: Mapping[str, float] | None = None
) -> Any:
    if form.is_number:
        # A number without another upper bound.
        bounds = {"le": _MOST, **(bounds or {})}
    about = {"description": description, "bounds": bounds or {}, "form": form}
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=about)
    return field(default=default, metadata=about)


def _from_json(written: str) -> Any:
    try:
        return decode(written)
    except ValueError:
        return written  # not a mapping, which the check reports


_ANY = re.compile(r".*", re.DOTALL)
_TEXT = Form(plain=_ANY)
_PATHS = Form(lambda written: tuple(filter(None, written.split(":"))), _ANY)
_NAMES = Form(lambda written: tuple(filter(None, map(str.strip, written.split(",")))), _ANY)
_QUEUES = Form(_NAMES.read, re.compile(rf"\s*{NAME}(\s*,\s*{NAME})*\s*"))
_WHOLE = Form(int, re.compile(r"[0-9]{1,15}"), is_number=True)
_DECIMAL = Form(float, re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?"), is_number=True)
