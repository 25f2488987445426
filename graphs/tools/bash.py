"""Reads the functions of a bash tool file from the annotations in its comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field

from sleipnir.graphs.tools.annotation import (
    BadAnnotation,
    read_aliases,
    read_argument,
    read_flag,
    read_option,
    read_programs,
    read_variable,
)
from sleipnir.graphs.tools.function import BashDetails, BashParameter, BashVariable, Function
from sleipnir.graphs.tools.source import INSTRUCTIONS, Parameter, Source
from sleipnir.records import dataclass

_ANNOTATION = re.compile(r"\s*#\s*@([A-Za-z][\w-]*)(?:\s+(.*))?")
_COMMENT = re.compile(r"\s*#(?!!)\s?(.*)")
FUNCTION = re.compile(r"\s*(?:function\s+([^\s(){};]+)|([^\s(){};#\"'$=]+)\s*\(\s*\))")

# Encloses code that another program has generated into the file.
_GENERATED_BEGIN, _GENERATED_END = "# ARGC-BUILD {", "# ARGC-BUILD }"

_PARAMETERS = {"option": read_option, "flag": read_flag, "arg": read_argument}
_NUMBERS = {"INT": "integer", "NUM": "number"}
_IGNORED = {"alias", "version", "author"}
# Every program answers these itself.
_NOT_OFFERED = {"help", "version"}


@dataclass(slots=True)
class _Annotation:
    """`@word text`, with the comment lines that continue the text."""

    word: str
    text: str
    line: int
    more: str = ""


@dataclass(slots=True)
class _Command:
    """Annotations that belong together: `main`, or a `@cmd` with the shell function after it."""

    line: int = 1
    description: str = ""
    entry: str | None = None
    parameters: dict[str, tuple[BashParameter, str]] = field(default_factory=dict)
    variables: dict[str, BashVariable] = field(default_factory=dict)
    programs: list[str] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)


def bash_functions(source: Source) -> list[Function]:
    """Return the functions after `@cmd` lines; for a global tool without any, its `main`."""
    reading = _BashReader(source)
    for part in _parts(source.text):
        reading.take(part)
    return reading.functions()


class _BashReader:
    """One pass over a file, from its first line to its last."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._common = _Command()  # what precedes the first `@cmd`
        self._commands: list[_Command] = []
        self._defined: dict[str, int] = {}  # lines of shell functions, by name

    def take(self, part: _Annotation | tuple[str, int]) -> None:
        """Take the next annotation, or the definition of a shell function."""
        if isinstance(part, _Annotation):
            try:
                self._annotate(part)
            except BadAnnotation as error:
                self._source.report("E605", f"@{part.word}: {error}", part.line)
            return
        name, line = part
        self._defined.setdefault(name, line)
        if self._commands and self._commands[-1].entry is None:
            self._commands[-1].entry = name

    def functions(self) -> list[Function]:
        """Return all declared functions, including `_instructions`."""
        found = [self._function(command) for command in self._commands]
        if not self._commands and not self._source.own:
            found.append(self._main())
        functions = [function for function in found if function is not None]
        entries = {function.entry for function in functions}
        if INSTRUCTIONS in self._defined and INSTRUCTIONS not in entries:
            plain = _Command(self._defined[INSTRUCTIONS], entry=INSTRUCTIONS)
            functions.append(self._made(plain, INSTRUCTIONS))
        return functions

    def _annotate(self, annotation: _Annotation) -> None:
        word = annotation.word
        scope = self._commands[-1] if self._commands else self._common
        if word == "cmd":
            text = annotation.text + annotation.more
            self._commands.append(_Command(annotation.line, text.strip()))
        elif word == "describe":
            self._common.description = (annotation.text + annotation.more).strip()
            self._common.line = annotation.line
        elif word in _PARAMETERS:
            parameter, text = _PARAMETERS[word](annotation.text)
            if parameter.key in scope.parameters:
                raise BadAnnotation(f"'{parameter.key}' is declared twice")
            scope.parameters[parameter.key] = parameter, (text + annotation.more).strip()
        elif word == "env":
            variable = read_variable(annotation.text)
            scope.variables[variable.name] = variable
        elif word == "meta":
            scope.programs += read_programs(annotation.text)
            scope.aliases |= read_aliases(annotation.text)
        elif word not in _IGNORED:
            raise BadAnnotation("there is no such annotation")

    def _function(self, command: _Command) -> Function | None:
        if command.entry is None:
            self._source.report("E603", "no function follows this @cmd", command.line)
            return None
        return self._made(command, command.entry.replace("-", "_"))

    def _main(self) -> Function | None:
        stem = self._source.path.stem
        if stem.startswith("_"):
            return None
        if "main" not in self._defined:
            self._source.report("E603", "a global tool needs a function 'main' or a @cmd", 1)
            return None
        command = _Command(self._common.line, self._common.description, "main")
        return self._made(command, stem.replace("-", "_"))

    def _made(self, command: _Command, name: str) -> Function:
        common = self._common
        parameters = {**common.parameters, **command.parameters}
        offered = [found for key, found in parameters.items() if key not in _NOT_OFFERED]
        details = BashDetails(
            parameters=tuple(parameter for parameter, _ in offered),
            variables=tuple({**common.variables, **command.variables}.values()),
            programs=tuple(dict.fromkeys([*common.programs, *command.programs])),
            aliases={**common.aliases, **command.aliases},
        )
        assert command.entry is not None
        return self._source.function(
            name,
            command.entry,
            command.line,
            command.description,
            [_offered(parameter, text) for parameter, text in offered],
            details,
        )


def _offered(parameter: BashParameter, text: str) -> Parameter:
    return Parameter(parameter.key, _schema(parameter), parameter.required, text)


def _schema(parameter: BashParameter) -> dict[str, object]:
    if parameter.kind == "flag":
        return {"type": "boolean"}
    values = parameter.choices.values if parameter.choices else ()
    choices = {"enum": list(values)} if values else {}
    if parameter.repeated or parameter.takes_rest:
        return {"type": "array", "items": {"type": "string", **choices}}
    notation = parameter.notations[0] if parameter.notations else ""
    return {"type": _NUMBERS.get(notation, "string"), **choices}


def _parts(text: str) -> Iterator[_Annotation | tuple[str, int]]:
    """Yield annotations and the definitions of functions, in file order."""
    open_annotation: _Annotation | None = None
    for number, line in _lines(text):
        if match := _ANNOTATION.fullmatch(line):
            if open_annotation:
                yield open_annotation
            open_annotation = _Annotation(match[1], (match[2] or "").rstrip(), number)
        elif open_annotation and (match := _COMMENT.fullmatch(line)):
            open_annotation.more += "\n" + match[1].rstrip()
        else:
            if open_annotation:
                yield open_annotation
            open_annotation = None
            if match := FUNCTION.match(line):
                yield match[1] or match[2], number
    if open_annotation:
        yield open_annotation


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines, with their numbers, that are not generated."""
    generated = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() == _GENERATED_BEGIN:
            generated = True
        if not generated:
            yield number, line
        if line.strip() == _GENERATED_END:
            generated = False
