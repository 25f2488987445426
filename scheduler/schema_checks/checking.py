"""Checks a value against a schema, or a text against a pattern: plain functions, no limit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from sleipnir.lazy import lazy_imports

# They take a tenth of a second, and most graphs have no schema.
with lazy_imports():
    import jsonschema
    import referencing
    from jsonschema import validators
    from referencing import exceptions

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

# Where in the value something is wrong, as a JSON path, and what.
Misfit: TypeAlias = tuple[str, str]

# More would bury the first mistake, which is usually the cause of the others.
MOST_MISFITS = 100
# Messages quote the value.
_LONGEST_MESSAGE = 2_000

_PATTERN_KEYWORDS = ("pattern", "patternProperties")


class SchemaInvalid(Exception):
    """The schema is none; the message says why and where."""


class Unchecked(Exception):
    """Whether the value fits cannot be told; the message says why."""


class Doing:
    """What a check is busy with, for whoever ends it."""

    pattern: str | None = None


def load() -> None:
    """Import now what checks of schemas need."""
    _validator("{}")


def misfits(schema_text: str, value: Any) -> list[Misfit]:
    """What in a JSON value does not conform to a schema, in the order of the paths.

    Raises:
        SchemaInvalid: the schema is none.
        Unchecked: it refers to what it does not hold, or in a circle; or a number is too large.
    """
    try:
        validator = _validator(schema_text)
        errors = sorted(validator.iter_errors(value), key=lambda error: error.json_path)
    except exceptions.Unresolvable as error:
        raise Unchecked(f"the schema has a reference that cannot be resolved: {error}") from error
    except (RecursionError, OverflowError, MemoryError) as error:
        # References in a circle; 10^400 to a float.
        raise Unchecked(str(error) or "it takes too much memory") from error
    except re.error as error:
        raise SchemaInvalid(f"{error.pattern!r} is not a regular expression: {error}") from error
    except SchemaInvalid:
        raise
    except Exception as error:  # of a library, with what nobody thought of
        raise Unchecked(f"{type(error).__name__}: {error}") from error
    return [(e.json_path, _shortened(e.message)) for e in errors[:MOST_MISFITS]]


def matches(pattern: str, text: str) -> bool:
    """Return whether the pattern is found anywhere in the text."""
    Doing.pattern = pattern
    found = re.search(pattern, text) is not None
    Doing.pattern = None
    return found


def place_of(pattern: str, schema: Any) -> str | None:
    """Return where a schema has the pattern, as a JSON path."""
    return next(_places(pattern, schema, "$"), None)


def _places(pattern: str, part: Any, path: str) -> Iterator[str]:
    if isinstance(part, dict):
        if part.get("pattern") == pattern or pattern in (part.get("patternProperties") or ()):
            yield path
        for key, inner in part.items():
            yield from _places(pattern, inner, f"{path}.{key}")
    elif isinstance(part, list):
        for index, inner in enumerate(part):
            yield from _places(pattern, inner, f"{path}[{index}]")


@lru_cache(maxsize=256)
def _validator(schema_text: str) -> Validator:
    """Return a validator, built once per distinct schema.

    Raises:
        SchemaInvalid: the schema is none; validation before the run may be switched off.
    """
    schema = json.loads(schema_text)
    dialect: Any = validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        dialect.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise SchemaInvalid(f"{_shortened(error.message)} at {error.json_path}") from error
    noting = {name: _noting(dialect.VALIDATORS[name]) for name in _PATTERN_KEYWORDS}
    # An empty registry: a reference is never looked up over the network.
    extend: Any = validators.extend  # has no types
    validator: Validator = extend(dialect, noting)(schema, registry=referencing.Registry())
    return validator


def _noting(check: Any) -> Any:
    """Return a keyword's check that says which pattern it applies."""

    def noted(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[Any]:
        # Of several patterns for names the first stands for all.
        Doing.pattern = patterns if isinstance(patterns, str) else next(iter(patterns), None)
        yield from check(validator, patterns, instance, schema)
        Doing.pattern = None

    return noted


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "…"
