"""Fields of an agent's form: one per key of its initial state, of the type of the value there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from sleipnir.records import dataclass

Kind = Literal["text", "long", "number", "switch", "texts", "json"]

# What the form asks for in a field of its own.
_ASKED_ANYWAY: Final = frozenset({"initial_prompt"})
# Longer texts, or those of several lines, get a field with room for them.
_LONG: Final = 80


@dataclass(frozen=True, slots=True)
class StateField:
    """A field for a key, with what is entered in it."""

    key: str
    kind: Kind
    value: str  # as it is shown
    default: Any  # of `initial_state`
    problem: str | None = None

    @property
    def is_changed(self) -> bool:
        """Whether something else than the default is entered."""
        return self.value != shown(self.default, self.kind)


class UnreadableText(ValueError):
    """What is entered does not have the type of the field."""


def fields_of(initial_state: Mapping[str, Any], given: Mapping[str, Any]) -> list[StateField]:
    """Return the fields of a form.

    Args:
        given: values to enter in place of the defaults.
    """
    found = []
    for key, default in initial_state.items():
        if key not in _ASKED_ANYWAY:
            kind = _kind(default)
            found.append(StateField(key, kind, shown(given.get(key, default), kind), default))
    return found


def entered(
    fields: Sequence[StateField], texts: Mapping[str, str]
) -> tuple[dict[str, Any], list[StateField]]:
    """Return the values that differ from the defaults, and the fields with what was entered.

    Fields whose text cannot be read say why, and give no value.

    Args:
        texts: by key; keys without one keep their default.
    """
    state: dict[str, Any] = {}
    filled: list[StateField] = []
    for each in fields:
        text = texts.get(each.key, each.value)
        problem = None
        try:
            value = _parsed(text, each.kind)
        except UnreadableText as error:
            problem = str(error)
        else:
            if value != each.default:
                state[each.key] = value
        filled.append(replace(each, value=text, problem=problem))
    return state, filled


def _kind(value: Any) -> Kind:
    if isinstance(value, bool):
        return "switch"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "long" if len(value) > _LONG or "\n" in value else "text"
    if value and isinstance(value, list) and all(_is_line(each) for each in value):
        return "texts"
    return "json"


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\n" not in value


def shown(value: Any, kind: Kind) -> str:
    """Return a value as a field shows it."""
    if kind in ("text", "long"):
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if kind == "texts" and isinstance(value, list):
        return "\n".join(map(str, value))
    is_large = isinstance(value, list | dict) and len(json.dumps(value)) > _LONG
    return json.dumps(value, ensure_ascii=False, indent=2 if is_large else None)


def _parsed(text: str, kind: Kind) -> Any:
    """Return the value of a text.

    Raises:
        UnreadableText: it has none of that kind.
    """
    if kind in ("text", "long"):
        return text
    if kind == "texts":
        return [line for line in text.splitlines() if line.strip()]
    try:
        value = json.loads(text)
    except ValueError as error:
        what = "a number" if kind == "number" else f"JSON: {error}"
        raise UnreadableText(f"this is not {what}") from error
    if kind == "number" and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise UnreadableText("this is not a number")
    return value
