"""Validates values of settings by their records' types. The only user of pydantic here."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from typing import Annotated, Any, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from sleipnir.graphs.document import shape
from sleipnir.scheduler.errors import WrongValue


def checked(record: type, name: str, value: Any) -> Any:
    """Return a value as the named field takes it.

    Args:
        record: a dataclass; the metadata of its fields may have `bounds`.

    Raises:
        WrongValue: the value is invalid.
    """
    try:
        return _type_of(record, name).validate_python(value)
    except ValidationError as error:
        raise _wrong(error.errors()[0]) from error


def as_json(record: Any) -> Any:
    """Return a record of settings as JSON values, secrets masked."""
    return TypeAdapter(type(record)).dump_python(record, mode="json")


@cache
def _type_of(record: Any, name: str) -> TypeAdapter[Any]:
    bounds = next(each.metadata for each in fields(record) if each.name == name).get("bounds", {})
    hint = get_type_hints(record, include_extras=True)[name]
    if is_dataclass(hint):  # a section with its own rules
        return TypeAdapter(hint)
    bounded: Any = Annotated[hint, Field(**bounds)]
    return TypeAdapter(bounded, config=ConfigDict(allow_inf_nan=False))


def _wrong(error: ErrorDetails) -> WrongValue:
    # Pydantic marks errors of a mapping's key with "[key]", after the key itself.
    path = tuple(str(step) for step in error["loc"] if step != "[key]")
    match error["type"]:
        case "extra_forbidden" | "unexpected_keyword_argument":
            return WrongValue(path, "unknown setting")
        case "value_error":
            return WrongValue(path, str(error["ctx"]["error"]))
        case _:
            return WrongValue(path, f"expected {shape.expected_by(error)}, got {error['input']!r}")
