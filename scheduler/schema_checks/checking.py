"""Checks a value against a schema, or a text against a pattern, without a limit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from sleipnir.graphs.document.finding import cut
from sleipnir.lazy import lazy_imports

# They take a tenth of a second to import, and most graphs have no schema.
with lazy_imports():
    import jsonschema
    import referencing
    from jsonschema import validators
    from referencing import exceptions

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

# The JSON path of what is wrong in the value, and the message.
Misfit: TypeAlias = tuple[str, str]

# More would bury the first one, which is usually the cause of the others.
MOST_MISFITS = 100
# Messages quote the value.
_LONGEST_MESSAGE = 2_000

_PATTERN_KEYWORDS = ("pattern", "patternProperties")


class SchemaInvalid(Exception):
    """The schema is invalid; the message says why and where."""


class Unchecked(Exception):
    """The value cannot be checked; the message says why."""


class Doing:
    """The pattern that the check is applying, for reports of time-outs."""

    pattern: str | None = None


def load() -> None:
    """Import everything that schema checks need."""
    _validator("{}")


def misfits(schema_text: str, value: Any) -> list[Misfit]:
    """Return what in a JSON value violates a schema, sorted by path.

    Raises:
        SchemaInvalid: the schema is invalid.
        Unchecked: it has a missing or circular reference, or a number is too large.
    """
    try:
        validator = _validator(schema_text)
        errors = sorted(validator.iter_errors(value), key=lambda error: error.json_path)
    except exceptions.Unresolvable as error:
        raise Unchecked(f"the schema has a reference that cannot be resolved: {error}") from error
    except (RecursionError, OverflowError, MemoryError) as error:
        # Circular references; 10^400 as a float.
        raise Unchecked(str(error) or "it takes too much memory") from error
    except re.error as error:
        raise SchemaInvalid(f"{error.pattern!r} is not a regular expression: {error}") from error
    except SchemaInvalid:
        raise
    except Exception as error:  # any bug of the library
        raise Unchecked(f"{type(error).__name__}: {error}") from error
    return [(e.json_path, cut(e.message, _LONGEST_MESSAGE)) for e in errors[:MOST_MISFITS]]


def matches(pattern: str, text: str) -> bool:
    """Return whether the pattern matches anywhere in the text."""
    Doing.pattern = pattern
    found = re.search(pattern, text) is not None
    Doing.pattern = None
    return found


def place_of(pattern: str, schema: Any) -> str | None:
    """Return the JSON path of a pattern in a schema."""
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
        SchemaInvalid: the schema is invalid, which validation may not have checked before.
    """
    schema = json.loads(schema_text)
    dialect: Any = validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        dialect.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise SchemaInvalid(
            f"{cut(error.message, _LONGEST_MESSAGE)} at {error.json_path}"
        ) from error
    noting = {name: _noting(dialect.VALIDATORS[name]) for name in _PATTERN_KEYWORDS}
    # With an empty registry, references are never fetched from the network.
    extend: Any = validators.extend  # has no types
    validator: Validator = extend(dialect, noting)(schema, registry=referencing.Registry())
    return validator


def _noting(check: Any) -> Any:
    """Wrap a keyword's check so that it records the pattern it applies."""

    def noted(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[Any]:
        # The first of several property patterns stands for all.
        Doing.pattern = patterns if isinstance(patterns, str) else next(iter(patterns), None)
        yield from check(validator, patterns, instance, schema)
        Doing.pattern = None

    return noted
