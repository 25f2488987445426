"""Value types of the section `models` for pydantic; imported when one is checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from sleipnir.graphs.models import standard_model, standard_provider

T = TypeVar("T")


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _alias(name: str) -> str:
    if not name.strip() or ":" in name:
        raise ValueError("an alias must not contain a colon")
    return name


def _no_duplicates(names: Iterable[str], value: Mapping[str, T]) -> dict[str, T]:
    """Return the mapping under these standard names."""
    result: dict[str, T] = {}
    for name, entry in zip(names, value.values(), strict=True):
        if name in result:
            raise ValueError(f"'{name}' is given twice, under two of its names")
        result[name] = entry
    return result


def _by_model(value: Mapping[str, T]) -> dict[str, T]:
    return _no_duplicates(map(standard_model, value), value)


def _by_provider(value: Mapping[str, T]) -> dict[str, T]:
    return _no_duplicates(map(standard_provider, value), value)


AliasName = Annotated[str, AfterValidator(_alias)]
# Tried in order, if one fails for good or is exhausted.
Chain = Annotated[
    tuple[Annotated[str, AfterValidator(standard_model)], ...],
    BeforeValidator(_listed),
    Field(min_length=1),
]
ByModel = Annotated[Mapping[str, T], AfterValidator(_by_model)]
ByProvider = Annotated[Mapping[str, T], AfterValidator(_by_provider)]
AtLeastOne = Annotated[int, Field(ge=1)]
Tokens = Annotated[int, Field(ge=0)]
# They are stored as whole billionths.
Dollars = Annotated[float, Field(ge=0, le=1_000_000_000)]
Seconds = Annotated[float, Field(ge=0)]
HttpUrl = Annotated[str, Field(pattern=r"^https?://")]
