"""Recognises command lines that only read: pipelines of read-only programs and git commands."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NOTHING = r"(?!)"
# Prefixes that a program's arguments must not have; with any others it only reads. Such programs
# are not given unquoted wildcards either, as a file may be named like an option.
_PROGRAMS = {
    "basename": _NOTHING,
    "cat": _NOTHING,
    "cmp": _NOTHING,
    "comm": _NOTHING,
    "cut": _NOTHING,
    "df": _NOTHING,
    "diff": _NOTHING,
    "dirname": _NOTHING,
    "du": _NOTHING,
    "echo": _NOTHING,
    "egrep": _NOTHING,
    "fgrep": _NOTHING,
    "find": r"-(delete|exec|fls|fprint|ok)",
    "grep": _NOTHING,
    "head": _NOTHING,
    "jq": _NOTHING,
    "ls": _NOTHING,
    "nl": _NOTHING,
    "pwd": _NOTHING,
    "readlink": _NOTHING,
    "realpath": _NOTHING,
    "rg": r"--(hostname-bin|pre)",
    "sort": r"-[^-]*[oT]|--(c|o)",
    "stat": _NOTHING,
    "tail": r"-[^-]*[fF]|--f",
    "tr": _NOTHING,
    "tree": r"-[^-]*[oR]",
    "wc": _NOTHING,
}
_GIT = (
    "blame",
    "cat-file",
    "describe",
    "diff",
    "diff-tree",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "name-rev",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "status",
)
# Options that write or start a program, in any abbreviation that git accepts.
_GIT_REFUSED = r"--(ou|op|ext|text|sub|ignore-su|recurse)|-[^-]*O"
_WILDCARD = "\0"
# Tokens that a shell would not interpret in any other way.
_TOKEN = re.compile(
    r"""(?P<operator>\|\|?|&&|;)|(?P<blank>[ \t]+)|'(?P<single>[^']*)'|"(?P<double>[^"`$\\!]*)\""""
    r"""|(?P<bare>[^\s'"<>`$()\\{}!\#|;&]+)"""
)


def why_not(command: str) -> str | None:
    """Return why a command line is not known to only read; None if it is."""
    try:
        programs = _programs(command.strip())
    except ValueError as error:
        return str(error)
    return next(filter(None, map(_why_not_program, programs)), None)


def only_looks(arguments: Sequence[str]) -> bool:
    """Return whether a git command, given by its arguments, only reads."""
    return _why_not_program(["git", *arguments]) is None


def _programs(command: str) -> list[list[str]]:
    """Split a command line into programs and words as a shell does.

    Raises:
        ValueError: a shell would interpret it differently.
    """
    programs: list[list[str]] = [[""]]
    place = 0
    while place < len(command):
        token = _TOKEN.match(command, place)
        if token is None:
            raise ValueError(f"{command[place]!r} may only stand in single quotes")
        words = programs[-1]
        if token["operator"]:
            programs.append([""])
        elif token["blank"]:
            words.append("")
        else:
            words[-1] = _joined(words[-1], token)
        place = token.end()
    # An empty word means nothing to any of these programs.
    return [[word for word in words if word] for words in programs]


def _joined(word: str, token: re.Match[str]) -> str:
    """Append a token to a word; wildcards that could turn it into an option are marked."""
    bare = token["bare"] or ""
    text = bare or token["single"] or token["double"] or ""
    is_wild = bool(re.search(r"[*?\[]", bare)) and (word + bare).startswith(("-", "*", "?", "["))
    return f"{_WILDCARD if is_wild else ''}{word}{text}"


def _why_not_program(words: Sequence[str]) -> str | None:
    if not words:
        return "a command is missing"
    program, arguments = words[0], words[1:]
    if program == "git":
        if not arguments or arguments[0] not in _GIT:
            return f"of git only: {', '.join(_GIT)}; without options before it"
        return _refused_argument("git", arguments[1:], _GIT_REFUSED)
    refused = _PROGRAMS.get(program)
    if refused is None:
        return f"'{program}' is not one of: git, {', '.join(_PROGRAMS)}"
    return _refused_argument(program, arguments, refused)


def _refused_argument(program: str, arguments: Sequence[str], refused: str) -> str | None:
    for argument in arguments:
        if refused != _NOTHING and re.match(f"{_WILDCARD}|{refused}", argument):
            return f"'{program}' may not be told '{argument.lstrip(_WILDCARD)}'"
    return None
