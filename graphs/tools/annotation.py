"""Parses one annotation of a bash tool: `--name`, its modifier, its notations, its text."""

from __future__ import annotations

import re
from typing import Literal

from sleipnir.graphs.tools.function import BashParameter, BashVariable, Choices
from sleipnir.records import dataclass

_NAME = r"[A-Za-z0-9_][A-Za-z0-9_-]*"
_OPTION_NAME = re.compile(rf"(?:-\w\s+)?--(?P<long>{_NAME})|-(?P<short>\w)")
_ARGUMENT_NAME = re.compile(_NAME)
_PROGRAMS = re.compile(r"require-tools\s+(.*)")
_PROGRAM = re.compile(r"[^\s,]+")
_ALIAS = re.compile(r"alias\s+(\w+)=(\w+)")
_VARIABLE_NAME = re.compile(r"[A-Za-z_]\w*")

# `!`, `~`, `*`, `+`, and the separator of the last two; then a default, or choices.
_MODIFIER = re.compile(
    r"""
    (?P<mark>[!~*+]?)
    (?:(?<=[*+])(?P<separator>[^\w\s\[<=`'"!~*+-]))?
    (?:
        =`(?P<default_function>[\w-]+)`
      | ='(?P<single>[^']*)'
      | ="(?P<double>[^"]*)"
      | =(?P<default>[^\s`'"]\S*)
      | \[(?P<unchecked>\??)`(?P<choice_function>[\w-]+)`\]
      | \[(?P<first>=?)(?P<choices>[^\]`|]+(?:\|[^\]`|]+)*)\]
    )?
    (?=\s|<|$)
    """,
    re.VERBOSE,
)
_SHOWN = 40  # of the invalid text, in messages
_DEFAULTS = ("default", "single", "double")
_NOTATION = re.compile(r"\s*<([^<>\s+*?]+)(\+?)>(?=\s|<|$)")
# Notations of other forms, and values from environment variables.
_UNSUPPORTED = re.compile(r"<\S+>(?=\s|$)|\$(?:\$|[A-Z_]\w*)(?=\s|$)")


class BadAnnotation(Exception):
    """The annotation is not of a supported form; the message says why."""


@dataclass(frozen=True, slots=True)
class _Modifier:
    mark: str = ""
    separator: str | None = None
    default: str | None = None
    default_function: str | None = None
    choices: Choices | None = None


def read_option(text: str) -> tuple[BashParameter, str]:
    """Parse `[-s] [--long]MOD[NOTATION] TEXT` into the parameter and its text.

    Raises:
        BadAnnotation: it does not have this form.
    """
    name, rest = _option_name(text)
    return _parameter("option", name, rest)


def read_argument(text: str) -> tuple[BashParameter, str]:
    """Parse `nameMOD[NOTATION] TEXT` into the parameter and its text.

    Raises:
        BadAnnotation: it does not have this form.
    """
    match = _ARGUMENT_NAME.match(text)
    if not match:
        raise BadAnnotation(f"expected a name, got '{_word(text)}'")
    return _parameter("arg", match[0], text[match.end() :])


def read_flag(text: str) -> tuple[BashParameter, str]:
    """Parse `[-s] [--long]MOD TEXT` into the parameter and its text.

    Raises:
        BadAnnotation: it does not have this form.
    """
    name, rest = _option_name(text)
    modifier, rest = _modifier(name, rest)
    if modifier != _Modifier(modifier.mark) or modifier.mark not in ("", "*"):
        raise BadAnnotation(f"'{name}': a flag takes no modifier but '*'")
    flag = BashParameter("flag", name, name.replace("-", "_"), repeated=modifier.mark == "*")
    return flag, rest.strip()


def read_variable(text: str) -> BashVariable:
    """Parse `NAMEMOD TEXT` into the variable.

    Raises:
        BadAnnotation: it does not have this form.
    """
    match = _VARIABLE_NAME.match(text)
    if not match:
        raise BadAnnotation(f"expected the name of a variable, got '{_word(text)}'")
    modifier, _ = _modifier(match[0], text[match.end() :])
    if modifier.mark not in ("", "!"):
        raise BadAnnotation(f"'{match[0]}': a variable takes no modifier '{modifier.mark}'")
    return BashVariable(
        match[0],
        required=modifier.mark == "!",
        default=modifier.default,
        default_function=modifier.default_function,
        choices=modifier.choices,
    )


def read_programs(text: str) -> list[str]:
    """Return the programs of `require-tools a,b`; none for any other `@meta`."""
    match = _PROGRAMS.fullmatch(text)
    return _PROGRAM.findall(match[1]) if match else []


def read_aliases(text: str) -> dict[str, str]:
    """Return the alias and the name of `alias other=name`; none for any other `@meta`."""
    match = _ALIAS.fullmatch(text)
    return {match[1]: match[2]} if match else {}


def _parameter(kind: Literal["option", "arg"], name: str, rest: str) -> tuple[BashParameter, str]:
    modifier, rest = _modifier(name, rest)
    notations, repeats, rest = _notations(name, rest)
    parameter = BashParameter(
        kind,
        name,
        name.replace("-", "_"),
        required=modifier.mark in ("!", "+"),
        repeated=modifier.mark in ("*", "+") or repeats,
        takes_rest=modifier.mark == "~",
        separator=modifier.separator,
        default=modifier.default,
        default_function=modifier.default_function,
        choices=modifier.choices,
        notations=notations,
    )
    return parameter, rest.strip()


def _option_name(text: str) -> tuple[str, str]:
    match = _OPTION_NAME.match(text)
    if not match:
        raise BadAnnotation(f"expected -s or --long, got '{_word(text)}'")
    return match["long"] or match["short"], text[match.end() :]


def _modifier(name: str, text: str) -> tuple[_Modifier, str]:
    match = _MODIFIER.match(text)
    if not match:
        raise BadAnnotation(f"'{name}': unknown modifier '{_word(text)}'")
    has_default = match["default_function"] or any(match[key] is not None for key in _DEFAULTS)
    if (match["mark"] and has_default) or (match["mark"] == "~" and match["choices"]):
        raise BadAnnotation(f"'{name}': unknown modifier '{match[0]}'")
    values = [value.strip("'\"") for value in (match["choices"] or "").split("|") if value]
    choices = None
    if values or match["choice_function"]:
        choices = Choices(tuple(values), match["choice_function"], checked=not match["unchecked"])
    default = next((match[key] for key in _DEFAULTS if match[key] is not None), None)
    if match["first"]:
        default = values[0]
    modifier = _Modifier(
        match["mark"], match["separator"], default, match["default_function"], choices
    )
    return modifier, text[match.end() :]


def _notations(name: str, text: str) -> tuple[tuple[str, ...], bool, str]:
    """Return the notations, whether the last one repeats, and the text that follows."""
    found: list[str] = []
    repeats = False
    start = 0
    while match := _NOTATION.match(text, start):
        if repeats:
            raise BadAnnotation(f"'{name}': only the last notation may end in '+'")
        found.append(match[1])
        repeats = bool(match[2])
        start = match.end()
    text = text[start:]
    if match := _UNSUPPORTED.match(text.lstrip()):
        raise BadAnnotation(f"'{name}': '{match[0]}' is not supported")
    return tuple(found), repeats or len(found) > 1, text


def _word(text: str) -> str:
    return text.split(maxsplit=1)[0][:_SHOWN] if text.strip() else ""
