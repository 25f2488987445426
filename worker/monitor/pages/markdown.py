"""Markdown of agents and models as HTML that is safe to show."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from sleipnir.worker.monitor.formats import visible
from sleipnir.worker.monitor.pages.code import code_html, language_of

# Characters. What is longer is shown as it is written: to format it costs the monitor time.
_MOST_OF_TEXT = 32_768
_MOST_OF_PAGE = 131_072
_MOST_OF_HTML = 131_072  # of a text: a table fills in the cells that its rows leave out
_KEPT = 128  # texts whose HTML is kept, since live pages ask for it again and again
_PLAIN = frozenset(
    ("paragraph_open", "paragraph_close", "inline", "text", "softbreak", "hardbreak")
)
_JSON = ("{", "[")
_ALLOWED = ("http://", "https://")


def formatted(texts: Iterable[str | None]) -> dict[str, str]:
    """Return the HTML of those texts that are Markdown or JSON; of a page, up to 128 KiB.

    It has no scripts, pictures or styles, classes of code only, and its links lead to web sites
    only.
    """
    found, room = {}, _MOST_OF_PAGE
    for text in texts:
        if text and text not in found and len(text) <= min(room, _MOST_OF_TEXT):
            room -= len(text)
            if html := _html(text):
                found[text] = html
    return found


@lru_cache(_KEPT)
def _html(text: str) -> str:
    """Return a text as HTML; empty if it is not Markdown or JSON, or becomes too large."""
    if text.lstrip()[:1] in _JSON and (value := _json(text)) is not None:
        return _code(json.dumps(value, ensure_ascii=False, indent=2), "json")
    parser = _parser()
    tokens = parser.parse(visible(text))
    if all(_is_plain(token) for token in tokens):
        return ""
    for token in tokens:
        token.attrs.pop("style", None)  # of columns that are aligned; the pages allow none
    html: str = parser.renderer.render(tokens, parser.options, {})
    return html if len(html) <= _MOST_OF_HTML else ""


def _is_plain(token: Token) -> bool:
    return token.type in _PLAIN and all(_is_plain(child) for child in token.children or ())


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True})
    parser.enable(["table", "strikethrough"]).disable("image")
    # The library's interface for own rules of links and of their addresses.
    parser.validateLink = lambda url: url.lower().startswith(_ALLOWED)  # type: ignore[method-assign]
    parser.add_render_rule("link_open", _link)
    parser.add_render_rule("fence", _fence)
    return parser


def _link(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    tokens[at].attrSet("rel", "noopener noreferrer nofollow")
    html: str = self.renderToken(tokens, at, options, env)
    return html


def _fence(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    words = tokens[at].info.split(maxsplit=1)
    return _code(tokens[at].content, language_of(words[0]) if words else None)


def _code(text: str, language: str | None) -> str:
    return f'<pre class="code"><code>{code_html(text, language)}</code></pre>\n'


def _json(text: str) -> Any:
    """Return the object or list that a text is; None if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
