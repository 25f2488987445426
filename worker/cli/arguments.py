"""Parses the arguments of a function, as typed by users, into what a model would send."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import click

from sleipnir.graphs.tools.function import BashDetails
from sleipnir.scheduler.cli.arguments import json_or_text

_NO_DETAILS = BashDetails()
_KINDS: Mapping[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_EXPECTED = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a JSON array",
    "object": "a JSON object",
    "null": "null",
}


def read_arguments(
    schema: Mapping[str, Any],
    given: Sequence[tuple[str, str]],
    whole: str | None = None,
    bash: BashDetails = _NO_DETAILS,
) -> dict[str, Any]:
    """Return the arguments of a call, checked as far as the schema allows.

    Args:
        schema: of the function's parameters.
        given: single values, which override those of `whole`. Read as JSON unless the schema wants
            a string.
        whole: a JSON object of arguments.
        bash: other names of parameters, and which lists may be written as one text.

    Raises:
        click.UsageError: an argument is unknown, missing, or of the wrong type.
    """
    aliases = bash.aliases
    texts = [(aliases.get(name, name), text) for name, text in given]
    names = [name for name, _ in texts]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise click.UsageError(f"'{twice}' is given twice; a list is one JSON array")
    found = {aliases.get(name, name): value for name, value in _object(whole).items()}
    _require_known([*found, *names], schema)
    properties = schema.get("properties", {})
    separators = {p.key: p.separator for p in bash.parameters if p.separator is not None}
    found |= {
        name: _value(name, text, properties.get(name, {}), separators.get(name))
        for name, text in texts
    }
    missing = [name for name in schema.get("required", ()) if name not in found]
    if missing:
        raise click.UsageError(f"missing {_listed(missing)}; give each with --arg NAME=VALUE")
    return found


def _object(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    found = json_or_text(text)
    if not isinstance(found, dict):
        raise click.UsageError('--json-args takes a JSON object, such as \'{"path": "notes.md"}\'')
    return found


def _require_known(names: Sequence[str], schema: Mapping[str, Any]) -> None:
    known = schema.get("properties", {})
    if schema.get("additionalProperties") or schema.get("patternProperties"):
        return
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = (
                f"did you mean '{near[0]}'?" if near else f"there are: {_listed(known) or 'none'}"
            )
            raise click.UsageError(f"there is no parameter '{name}'; {hint}")


def _value(name: str, text: str, schema: Mapping[str, Any], separator: str | None) -> Any:
    declared = schema.get("type", ())
    kinds = [declared] if isinstance(declared, str) else list(declared)
    # Without a type it may be anything.
    value = text if "string" in kinds else json_or_text(text)
    if separator is not None and not isinstance(value, list):
        value = text.split(separator)
    if kinds and not any(_fits(value, kind) for kind in kinds):
        expected = " or ".join(_EXPECTED[kind] for kind in kinds)
        raise click.UsageError(f"'{name}' takes {expected}, got '{text}'")
    choices = schema.get("enum")
    if choices is not None and value not in choices:
        raise click.UsageError(f"'{name}' must be one of {_listed(choices)}, got '{text}'")
    return value


def _fits(value: Any, kind: str) -> bool:
    if kind == "string":
        return isinstance(value, str)
    return isinstance(value, _KINDS[kind]) and isinstance(value, bool) <= (kind == "boolean")


def _listed(values: Sequence[Any] | Mapping[str, Any]) -> str:
    return ", ".join(v if isinstance(v, str) else json.dumps(v) for v in values)
