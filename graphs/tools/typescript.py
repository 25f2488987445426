"""Reads the exported functions of a TypeScript tool file, as far as their signatures require."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

from sleipnir.graphs.tools.function import BashDetails, Function
from sleipnir.graphs.tools.needs import read_needs
from sleipnir.graphs.tools.source import INSTRUCTIONS, Parameter, Source
from sleipnir.records import dataclass

# An unclosed token extends to the end of the text: searching again from each would take too long.
_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<comment>/\*.*?(?:\*/|\Z)|//[^\n]*)
  | (?P<string>'[^'\\\n]*+(?:\\.[^'\\\n]*+)*'?
      |"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"?
      |`[^`\\]*+(?:\\.[^`\\]*+)*`?)
  | (?P<word>[\w$]+)
  | (?P<symbol>=>|\.\.\.|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"/(?:\\.|\[[^\]\\\n]*+(?:\\.[^\]\\\n]*+)*\]?|[^/\\\[\n]++)+/?\w*")
# After these a slash divides; elsewhere it begins a regular expression.
_BEFORE_DIVISION = re.compile(r"[\w$)\]}'\"`]")
_WORDS_BEFORE_REGEX = {"return", "typeof", "case", "in", "of", "void", "delete"}

_OPENING, _CLOSING = "([{<", ")]}>"
_JSDOC_PARAMETER = re.compile(
    r"@param\s+(?:\{[^}]*\}\s*)?\[?(\w+)[^\s\]]*\]?\s*(?:-\s*)?(.*)", re.DOTALL
)
_JSDOC_MARGIN = re.compile(r"^\s*\*? ?")
_JSDOC_TAG = re.compile(r"^[^\S\n]*+(?=@)", re.MULTILINE)
_NAME = re.compile(r"[\w$]+")
_SCALARS = {"string": "string", "number": "number", "boolean": "boolean"}


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    line: int
    doc: str = ""  # the JSDoc block directly before it
    begins_line: bool = False


@dataclass(frozen=True, slots=True)
class _Exported:
    """An exported function, up to its name."""

    name: str
    line: int
    doc: str
    rest: Sequence[_Token]  # what follows the name


@dataclass(frozen=True, slots=True)
class _Comment:
    """A JSDoc block: its description, and those of parameters."""

    description: str
    parameters: dict[str, str]


class _Unsupported(Exception):
    """A parameter that no JSON object can fill; the message says which."""


def typescript_functions(source: Source) -> list[Function]:
    """Return `run` of a global tool, or every exported public function of an agent's own file."""
    needs = read_needs(source, "//")
    exported = list(_exported(list(_tokens(source.text))))
    if source.own:
        found = [
            _function(source, function, function.name, needs)
            for function in exported
            if not function.name.startswith("_") or function.name == INSTRUCTIONS
        ]
        return [function for function in found if function is not None]
    stem = source.path.stem
    if stem.startswith("_"):
        return []
    run = next((function for function in exported if function.name == "run"), None)
    if run is None:
        source.report("E603", "a global tool needs an exported function 'run'", 1)
        return []
    found = [_function(source, run, stem.replace("-", "_"), needs)]
    return [function for function in found if function is not None]


def _tokens(text: str) -> Iterator[_Token]:
    position, line, doc, before = 0, 1, "", ""
    while position < len(text):
        match = _token_at(text, position, before)
        found = match[0]
        if match.re is _REGEX or match.lastgroup not in ("space", "comment"):
            yield _Token(found, line, doc, begins_line=text[position - 1 : position] in ("", "\n"))
            before, doc = found, ""
        elif match.lastgroup == "comment":
            doc = found if found.startswith("/**") else ""
        position = match.end()
        line += found.count("\n")


def _token_at(text: str, position: int, before: str) -> re.Match[str]:
    match = _TOKEN.match(text, position)
    assert match is not None, "any character is a token"
    divides = _BEFORE_DIVISION.match(before[-1:]) and before not in _WORDS_BEFORE_REGEX
    if match[0] == "/" and not divides:
        return _REGEX.match(text, position) or match
    return match


def _exported(tokens: Sequence[_Token]) -> Iterator[_Exported]:
    """Yield the exported top-level functions."""
    depth = 0
    for index, token in enumerate(tokens):
        if token.text in ("{", "(", "["):
            depth += 1
        elif token.text in ("}", ")", "]"):
            depth -= 1
        elif token.text == "export" and (depth == 0 or token.begins_line):
            depth = 0  # brackets within nested templates may have been miscounted
            name = index + 1
            while name < len(tokens) and tokens[name].text in ("default", "async"):
                name += 1
            words = [token.text for token in tokens[name : name + 2]]
            if len(words) == 2 and words[0] == "function" and _NAME.fullmatch(words[1]):
                yield _Exported(words[1], token.line, token.doc, tokens[name + 2 :])


def _function(
    source: Source, exported: _Exported, offered_as: str, needs: BashDetails
) -> Function | None:
    listed = _parameter_list(exported.rest)
    if listed is None:
        message = f"function '{exported.name}': its parameter list is not closed"
        source.report("E603", message, exported.line)
        return None
    comment = _read_comment(exported.doc)
    parameters = []
    for tokens in _split(listed, ","):
        try:
            if tokens:  # otherwise a trailing comma
                parameters.append(_parameter(tokens, comment))
        except _Unsupported as error:
            source.report("E605", f"function '{exported.name}': {error}", tokens[0].line)
    line, description = exported.line, comment.description
    return source.function(offered_as, exported.name, line, description, parameters, needs)


def _parameter_list(rest: Sequence[_Token]) -> list[_Token] | None:
    """Return the tokens in the parentheses after a function's name and type parameters."""
    depth = 0
    start: int | None = None
    for index, token in enumerate(rest):
        if token.text in _OPENING:
            if token.text == "(" and depth == 0 and start is None:
                start = index + 1
            depth += 1
        elif token.text in _CLOSING:
            depth -= 1
            if depth == 0 and token.text == ")":
                return list(rest[start:index])
    return None


def _split(tokens: Sequence[_Token], separator: str) -> list[list[_Token]]:
    """Split at separators that are not in brackets."""
    parts: list[list[_Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.text in _OPENING) - (token.text in _CLOSING)
        if token.text == separator and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _parameter(tokens: list[_Token], comment: _Comment) -> Parameter:
    name = tokens[0].text
    if name == "...":
        raise _Unsupported("a rest parameter is not supported")
    if name in ("{", "["):
        raise _Unsupported("a destructured parameter is not supported")
    declared, *default = _split(tokens[1:], "=")
    optional = bool(default) or (bool(declared) and declared[0].text == "?")
    written = [token.text for token in declared if token.text != "?"]
    schema, nullable = _typed(written[1:])  # after the colon
    return Parameter(name, schema, not (optional or nullable), comment.parameters.get(name, ""))


def _typed(words: Sequence[str]) -> tuple[dict[str, Any], bool]:
    """Return a schema, and whether the value may be left out."""
    members = [tuple(member) for member in _union(words) if member]
    values = [member for member in members if member not in (("null",), ("undefined",))]
    nullable = len(values) < len(members)
    if values and all(len(member) == 1 and member[0][0] in "\"'" for member in values):
        return {"type": "string", "enum": [member[0][1:-1] for member in values]}, nullable
    if not values:
        return {"type": "string"}, nullable
    return _single(values[0]), nullable


def _union(words: Sequence[str]) -> list[list[str]]:
    parts = _split([_Token(word, 0) for word in words], "|")
    return [[token.text for token in part] for part in parts]


def _single(words: Sequence[str]) -> dict[str, Any]:
    if words[-2:] == ("[", "]"):
        return {"type": "array", "items": _typed(words[:-2])[0]}
    if words[:2] == ("Array", "<") and words[-1] == ">":
        return {"type": "array", "items": _typed(words[2:-1])[0]}
    if words[0] == "(" and words[-1] == ")" and "=>" not in words:
        return _typed(words[1:-1])[0]
    return {"type": _SCALARS.get(words[0], "string") if len(words) == 1 else "string"}


def _read_comment(doc: str) -> _Comment:
    inside = doc.removeprefix("/**").removesuffix("*/")
    lines = [_JSDOC_MARGIN.sub("", line).rstrip() for line in inside.splitlines()]
    description = takewhile(lambda line: not line.lstrip().startswith("@"), lines)
    tags = _JSDOC_TAG.split("\n".join(lines))
    matches = (_JSDOC_PARAMETER.match(tag.strip()) for tag in tags)
    parameters = {match[1]: " ".join(match[2].split()) for match in matches if match}
    return _Comment("\n".join(description).strip(), parameters)
