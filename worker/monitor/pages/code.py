"""Code as HTML, with classes for a few kinds of words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from time import thread_time
from typing import TYPE_CHECKING, Any, Final

from tornado.escape import xhtml_escape

from sleipnir.worker.monitor.formats import visible

if TYPE_CHECKING:
    from pygments.lexer import Lexer

# What is longer, in characters, or takes more CPU time, has no colours: lexers go back and forth
# without end in texts made for that.
_MOST: Final = 32_768
_LONGEST_LINE: Final = 1_000
_MOST_S: Final = 0.1
_KEPT: Final = 64  # texts, since live pages ask for them again and again
# Suffix of a file, or name in a Markdown fence → Pygments' name of the language.
_LANGUAGES: Final = {
    **{"yaml": "yaml", "yml": "yaml", "json": "json", "toml": "toml", "ini": "ini"},
    **{"py": "python", "python": "python", "sh": "bash", "bash": "bash", "shell": "bash"},
    **{"js": "javascript", "javascript": "javascript", "ts": "typescript", "sql": "sql"},
    **{"diff": "diff", "patch": "diff"},
}


def language_of(name: str) -> str | None:
    """Return the language of a file or of a fence, if it is one of those that have colours."""
    return _LANGUAGES.get(name.rpartition(".")[2].lower())


def files_html(files: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return files with their texts as HTML too, None without one."""
    return [
        {
            **file,
            "html": None
            if file["text"] is None
            else code_html(file["text"], language_of(file["path"])),
        }
        for file in files
    ]


@lru_cache(_KEPT)
def code_html(text: str, language: str | None) -> str:
    """Return code as HTML: escaped, with a class for keywords, texts, numbers, comments, names."""
    shown = visible(text)
    lines = shown.split("\n")
    if language is not None and len(text) <= _MOST and max(map(len, lines)) <= _LONGEST_LINE:
        with suppress(TimeoutError):
            return "".join(_coloured("\n".join(map(str.rstrip, lines)), language))
    return str(xhtml_escape(shown))


def _coloured(text: str, language: str) -> Iterator[str]:
    lexer = _lexer(language)  # loading it does not count
    until = thread_time() + _MOST_S
    for kind, value in lexer.get_tokens(text):
        if thread_time() > until:
            raise TimeoutError
        found, shown = _class_of(kind), str(xhtml_escape(value))
        # No span goes over the end of a line, so that each line stands for itself.
        yield "\n".join(_span(line, found) for line in shown.split("\n"))


def _span(text: str, of_class: str) -> str:
    return f'<span class="{of_class}">{text}</span>' if text and of_class else text


def _class_of(kind: Any) -> str:
    from pygments.token import Comment, Keyword, Literal, Name, Number  # noqa: PLC0415 - see _lexer

    kinds = ((Comment, "c"), (Keyword, "k"), (Number, "m"), (Literal, "s"))
    names = ((Name.Tag, "a"), (Name.Function, "a"), (Name.Class, "a"), (Name.Attribute, "a"))
    return next((letter for each, letter in (*kinds, *names) if kind in each), "")


@lru_cache
def _lexer(language: str) -> Lexer:
    # 60 ms that pages without code do not need
    from pygments.lexers import get_lexer_by_name  # noqa: PLC0415

    return get_lexer_by_name(language, stripnl=False, ensurenl=False)
