"""Checks sections of files against their records. The only module that uses pydantic for this."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

from sleipnir.graphs.schema import Section

S = TypeVar("S", bound=Section)


def checked(section: type[S], values: Mapping[str, Any]) -> S:
    """Build a section from values by their names in files; nested sections may be built already.

    Raises:
        ValidationError: the values do not fit.
    """
    made: S = adapter_of(section).validate_python(values)
    return made


def adapter_of(section: type[Section]) -> TypeAdapter[Any]:
    """Return pydantic's adapter of a section; created once."""
    kind: Any = section  # a type that can be a cache key
    return _adapter_of(kind)


@cache
def _adapter_of(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
