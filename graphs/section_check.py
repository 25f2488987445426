"""Checks the sections of files by what their records say of them. The one place with pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

from sleipnir.graphs.schema import Section

S = TypeVar("S", bound=Section)


def checked(section: type[S], values: Mapping[str, Any]) -> S:
    """The section with these values, by their names in files; parts of it may be sections already.

    Raises:
        ValidationError: it does not take them.
    """
    made: S = adapter_of(section).validate_python(values)
    return made


def adapter_of(section: type[Section]) -> TypeAdapter[Any]:
    """What pydantic makes of a section; made once."""
    kind: Any = section  # as which it can be a key
    return _adapter_of(kind)


@cache
def _adapter_of(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
