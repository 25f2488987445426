"""Checks a call before anything runs, and converts the arguments of bash functions to text."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.document.finding import cut, printable
from sleipnir.graphs.state import encode
from sleipnir.graphs.tools.function import BashDetails, BashParameter, Choices, Function
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass

# Lazy: importing it takes a tenth of a second, and tools in bash do not need it.
with lazy_imports():
    import jsonschema

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

# The numbers that bash can calculate with: evaluating anything else could run a command.
_NUMBERS = {
    "INT": ("an integer", re.compile(r"[+-]?[0-9]{1,100}")),
    "NUM": (
        "a number",
        re.compile(
            r"[+-]?(?:[0-9]{1,100}(?:\.[0-9]{0,100})?|\.[0-9]{1,100})"
            r"(?:[eE][+-]?[0-9]{1,5})?"
        ),
    ),
}
_SHOWN_CHARACTERS = 100  # of a refused value


def wrong_names(function: Function, arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield messages about unknown and missing arguments."""
    known = function.parameters.get("properties", {})
    for name in arguments:
        if name not in known:
            there_are = ", ".join(known) or "none"
            yield f"unknown argument '{_cut(name)}'; there are: {there_are}"
    for name in function.parameters.get("required", ()):
        if name not in arguments:
            yield _missing(name)


def wrong_values(function: Function, arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield messages about values that a Python or TypeScript function did not declare.

    Types, choices and items of lists are checked; null means that an optional argument is left out.
    Values of bash functions are converted to text first: see `BashArguments`.
    """
    required = function.parameters.get("required", ())
    for name, schema in function.parameters.get("properties", {}).items():
        value = arguments.get(name)
        if name not in arguments or (value is None and name not in required):
            continue
        for error in _validator(encode(schema)).iter_errors(value):
            place = "".join(f"[{step!r}]" for step in error.absolute_path)
            yield f"argument '{name}'{place} {_expected(error)}, got {_shown(error.instance)}"


def wrong_surroundings(bash: BashDetails, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield messages about variables and programs that a tool needs but that are missing."""
    for variable in bash.variables:
        value = environment.get(variable.name)
        if value is not None:
            yield from _not_among(f"environment variable {variable.name}", variable.choices, value)
        elif variable.required:
            yield f"missing environment variable {variable.name}"
    for program in bash.programs:
        if shutil.which(program, path=environment.get("PATH")) is None:
            yield f"missing program '{program}': it is not on the PATH of this worker"


@dataclass(slots=True)
class BashArguments:
    """The arguments of a bash function, as text."""

    function: Function
    texts: dict[str, list[str]] = field(default_factory=dict)  # of the given parameters, by key
    wrong: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, function: Function, arguments: Mapping[str, Any]) -> BashArguments:
        """Convert JSON values to text; messages about those that cannot be are in `wrong`."""
        made = cls(function)
        for parameter in function.bash.parameters:
            value = arguments.get(parameter.key)
            try:
                texts = [] if value is None else list(_texts(parameter, value))
            except ValueError as error:
                made.wrong.append(f"argument '{parameter.key}' {error}")
                continue
            if texts:
                made.texts[parameter.key] = texts
                for text in texts:
                    made.wrong += _not_among(f"argument '{parameter.key}'", parameter.choices, text)
                    made.wrong += _no_number(parameter, text)
            elif parameter.required and parameter.key in arguments:
                made.wrong.append(_missing(parameter.key))
        return made

    def values(self) -> Iterator[str]:
        """Yield the variables to set, as fields for the wrapper."""
        for parameter in self.function.bash.parameters:
            texts = self._texts_or_default(parameter)
            if texts is not None:
                count = str(len(texts)) if _is_list(parameter) else "-"
                yield from (f"argc_{parameter.key}", count, *texts)
        for name, texts in (("args", self._line()), ("positionals", self._positionals())):
            yield from (f"argc__{name}", str(len(texts)), *texts)

    def questions(self, environment: Mapping[str, str]) -> Iterator[str]:
        """Yield what only functions of the tool file can tell, as fields for the wrapper."""
        for variable in self.function.bash.variables:
            if variable.name in environment:
                yield from _choice(variable.name, variable.choices)
            elif variable.default_function:
                yield from ("default_env", variable.name, variable.default_function)
        for parameter in self.function.bash.parameters:
            name = f"argc_{parameter.key}"
            if parameter.key in self.texts:
                yield from _choice(name, parameter.choices)
            elif parameter.default_function:
                word = "default_list" if _is_list(parameter) else "default"
                yield from (word, name, parameter.default_function)

    def _texts_or_default(self, parameter: BashParameter) -> list[str] | None:
        if parameter.key in self.texts or parameter.default is None:
            return self.texts.get(parameter.key)
        return list(_texts(parameter, parameter.default))

    def _line(self) -> list[str]:
        """Return the call as a user would have typed it."""
        line = [self.function.file.name]
        if self.function.entry != "main":
            line.append(self.function.entry)
        for parameter in self.function.bash.parameters:
            option = f"--{parameter.name}" if len(parameter.name) > 1 else f"-{parameter.name}"
            for text in self.texts.get(parameter.key, ()):
                match parameter.kind:
                    case "flag":
                        line += [option] * int(text)
                    case "option":
                        line += [option, text]
        return line + self._positionals()

    def _positionals(self) -> list[str]:
        """Return the values of `@arg`s, with empty ones for gaps so that positions are kept."""
        found: list[str] = []
        left_out = 0
        for parameter in self.function.bash.parameters:
            if parameter.kind == "arg":
                texts = self._texts_or_default(parameter)
                if texts is None:
                    left_out += 1
                else:
                    found += [""] * left_out + texts
                    left_out = 0
        return found


def _texts(parameter: BashParameter, value: Any) -> Iterator[str]:
    """Yield the texts for a value; none if it means the same as leaving it out.

    Raises:
        ValueError: the parameter cannot take the value.
    """
    if parameter.kind == "flag":
        yield from _count(parameter, value)
        return
    separated = parameter.separator is not None and isinstance(value, str)
    values = value.split(parameter.separator) if separated else value
    if not isinstance(values, list):
        values = [values]
    elif not _is_list(parameter) and len(values) > 1:
        raise ValueError(f"takes one value, got {len(values)}")
    for each in values:
        if each is not None:
            yield _text(each)


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else encode(value)
    if "\0" in text:
        raise ValueError("contains a NUL character, which bash does not support")
    return text


def _count(flag: BashParameter, value: Any) -> Iterator[str]:
    """Yield how often a flag is set."""
    most = 1_000 if flag.repeated else 1
    if value in (True, "true", "1"):
        yield "1"
    elif isinstance(value, int) and 1 < value <= most:
        yield str(value)
    elif value not in (False, "false", "0", ""):
        raise ValueError(f"must be true or false, got {_shown(value)}")


def _no_number(parameter: BashParameter, text: str) -> Iterator[str]:
    notation = parameter.notations[0] if len(parameter.notations) == 1 else ""
    if parameter.kind != "flag" and notation in _NUMBERS:
        wanted, pattern = _NUMBERS[notation]
        if not pattern.fullmatch(text):
            yield f"argument '{parameter.key}' must be {wanted}, got {_shown(text)}"


def _is_list(parameter: BashParameter) -> bool:
    return parameter.kind != "flag" and (parameter.repeated or parameter.takes_rest)


@lru_cache(maxsize=1_024)
def _validator(schema_text: str) -> Validator:
    return jsonschema.Draft202012Validator(json.loads(schema_text))


def _expected(error: Any) -> str:
    if error.validator == "enum":
        return f"must be one of {', '.join(map(encode, error.validator_value))}"
    return f"must be of type {error.validator_value}"


def _shown(value: Any) -> str:
    return _cut(encode(value))


def _cut(text: str) -> str:
    return cut(printable(text), _SHOWN_CHARACTERS)


def _missing(name: str) -> str:
    return f"missing required argument '{name}'"


def _not_among(what: str, choices: Choices | None, value: str) -> Iterator[str]:
    if choices and choices.checked and choices.values and value not in choices.values:
        yield f"{what} must be one of {', '.join(choices.values)}; got '{_cut(value)}'"


def _choice(name: str, choices: Choices | None) -> Iterator[str]:
    if choices and choices.checked and choices.function:
        yield from ("choice", name, choices.function)
