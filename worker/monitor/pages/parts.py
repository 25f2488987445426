"""Parts that many pages have, as templates name them.

`{% module run_link(run_id) %}` stands for a part, `{% apply fact('Steps') %}…{% end %}` for one
around other content. Addresses that they are given have the site's prefix already.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from tornado.escape import to_unicode, xhtml_escape

from sleipnir.records import dataclass
from sleipnir.scheduler.client.rerun.words import WordDiff
from sleipnir.scheduler.views.batches import STATUSES
from sleipnir.worker.monitor.access import Powers, User
from sleipnir.worker.monitor.charts.bars import bar_svg
from sleipnir.worker.monitor.formats import NONE, glyph, instant, isolated, short, visible, word
from sleipnir.worker.monitor.pages.form_fields import answer_field

Around: TypeAlias = Callable[[bytes], str]
ButtonKind: TypeAlias = Literal["primary", "plain", "quiet", "danger"]

# Texts of others are escaped, so that these are the tags of templates.
_CELL = re.compile(r"<t[rd]\b")
_TAG = re.compile(r"<[^<>]*>")
_MARKS: Mapping[str, str] = {"+": "is-added", "-": "is-removed"}
# The state that colours runs which are queued or running.
_LOOKS: Mapping[str, str] = {"open": "running"}


@dataclass(frozen=True, slots=True)
class PageParts:
    """The parts of one page, for one visitor."""

    root: str  # the site's prefix
    may: Powers
    token_field: str
    visitor: User | None
    asset: Callable[[str], str]

    def names(self) -> dict[str, Any]:
        """Return what templates need to use the parts."""
        return {
            "_tt_modules": self,  # where Tornado looks for modules
            "act_form": self.act_form,
            "fact": fact,
            "wide_table": wide_table,
            "card": self.card,
            "banner": banner,
            "empty": self.empty,
            "menu": self.menu,
            "attributes": _attributes,
            "answer_field": answer_field,
        }

    def icon(self, name: str) -> str:
        """An icon; it only repeats a word that stands beside it."""
        address = f"{self.asset('icons.svg')}#{name}"
        return f'<svg class="icon" aria-hidden="true"><use href="{_text(address)}"/></svg>'

    def run_link(self, run_id: str) -> str:
        """A link to a run's page."""
        return f'<a href="{self.root}/runs/{_text(run_id)}"><code>{_text(short(run_id))}</code></a>'

    def pill(self, status: str) -> str:
        """A state, as a sign and a word."""
        sign = f'<span aria-hidden="true">{_text(glyph(status))}</span>'
        return f'<span class="pill state-{_text(status)}">{sign} {_text(word(status))}</span>'

    def figure(self, text: str) -> str:
        """A formatted number; a dash steps back."""
        return f'<span class="none">{NONE}</span>' if text == NONE else _text(text)

    def batch_bar(self, batch: Mapping[str, Any]) -> str:
        """A batch's runs by state, as parts of a bar."""
        counts = {_LOOKS.get(status, status): batch[status] for status in STATUSES}
        return bar_svg(counts, batch["total"])

    def time(self, at: str | None) -> str:
        """An instant, which scripts show in the visitor's zone; None: a dash."""
        if at is None:
            return _text(instant(at))
        return f'<time datetime="{_text(at)}" title="{_text(at)}">{_text(instant(at))}</time>'

    def diff(self, lines: Sequence[str], label: str = "") -> str:
        """The lines of a difference, those added and removed marked."""
        marked = "".join(
            f'<span class="{_MARKS.get(line[:1], "is-same")}">{isolated(line)}\n</span>'
            for line in lines
        )
        reachable = f' tabindex="0" aria-label="{_text(label)}"' if label else ""
        return f'<pre class="diff"{reachable}>{marked}</pre>'

    def words(self, found: WordDiff, *, first: bool) -> str:
        """The first or the second of two texts, with the words that are only in it marked."""
        kind, tag = ("removed", "del") if first else ("added", "ins")
        shown = "".join(
            _text(visible(text)) if each == "same" else f"<{tag}>{_text(visible(text))}</{tag}>"
            for each, text in found.parts
            if each in ("same", kind) and text
        )
        return f'<pre class="words">{shown.strip()}</pre>'

    def source(self, html: str) -> str:
        """The lines of a file, of `code_html`."""
        lines = "".join(f"<span>{line}\n</span>" for line in html.removesuffix("\n").split("\n"))
        return f'<pre class="source code" tabindex="0">{lines}</pre>'

    def button(
        self, label: str, kind: ButtonKind = "plain", icon: str = "", **attributes: str | bool
    ) -> str:
        """A button; with `href`, a link that looks like one. A page has one primary button."""
        is_link = "href" in attributes
        tag = "a" if is_link else "button"
        # Styles need no class to know a plain button.
        style = {"class": f"btn btn-{kind}"} if is_link or kind != "plain" else {}
        sign = self.icon(icon) if icon else ""
        return f"<{tag}{_attributes(style | attributes)}>{sign}{isolated(label)}</{tag}>"

    def act_button(
        self,
        label: str,
        needs: Literal["answer", "operate"] = "operate",
        kind: ButtonKind = "plain",
        icon: str = "",
        **attributes: str | bool,
    ) -> str:
        """A button for those with a role; for others it is disabled, and says why."""
        if not getattr(self.may, needs):
            attributes |= {"disabled": True, "title": f"requires the role {needs}"}
        return self.button(label, kind, icon, **attributes)

    def tabs(self, label: str, pages: Sequence[tuple[str, str, int | None]], chosen: str) -> str:
        """Links to pages beside each other: name, address, and how much is there if it is known.

        Pages with nothing on them are left out.
        """
        links = "".join(
            _tab(*page, is_chosen=page[0] == chosen)
            for page in pages
            if page[2] != 0 or page[0] == chosen
        )
        return f'<nav class="tabs" aria-label="{_text(label)}">{links}</nav>'

    def tile(
        self, label: str, number: str, address: str = "", state: str = "", more: str = ""
    ) -> str:
        """A number of a whole page; `state` colours it, `more` compares it."""
        tag = "a" if address else "div"
        style = f"tile state-{state}" if state else "tile"
        given = _attributes({"class": style} | ({"href": address} if address else {}))
        below = f"<span>{isolated(more)}</span>" if more else ""
        return f"<{tag}{given}><span>{_text(label)}</span><b>{isolated(number)}</b>{below}</{tag}>"

    def card(self, title: str, address: str = "") -> Around:
        """A part of a page with a title, around its content; `address` has all of it."""
        more = f'<a href="{_text(address)}">all →</a>' if address else ""
        head = f'<div class="card-head"><h2>{isolated(title)}</h2>{more}</div>'
        return lambda body: f'<section class="card">{head}{to_unicode(body)}</section>'

    def empty(self, icon: str, sentence: str) -> Around:
        """What stands where there is nothing yet, around what to do about it."""
        begin = f'<div class="empty">{self.icon(icon)}<p>{isolated(sentence)}</p>'
        return lambda body: f"{begin}{to_unicode(body)}</div>"

    def menu(self, label: str, kind: ButtonKind = "plain") -> Around:
        """A button that opens a menu, around its entries."""
        opener = f'<summary class="btn btn-{kind}">{isolated(label)}{self.icon("chevron-down")}'
        begin = f'<details class="drop">{opener}</summary><div class="menu">'
        return lambda body: f"{begin}{to_unicode(body)}</div></details>"

    def act_form(self, action: str, style: str = "steer", *, files: bool = False) -> Around:
        """A form that changes something, around its fields; without action it goes to the page.

        Args:
            files: whether it has fields for files.
        """
        token = "" if self.visitor is None else self.visitor.form_token
        hidden = f'<input type="hidden" name="{_text(self.token_field)}" value="{_text(token)}">'
        encoding = "multipart/form-data" if files else ""
        given = [("action", action), ("class", style), ("enctype", encoding)]
        more = "".join(f' {name}="{_text(value)}"' for name, value in given if value)
        begin = f'<form method="post"{more}>{hidden}'
        return lambda content: f"{begin}{to_unicode(content)}</form>"


def fact(name: str, compared: str = "") -> Around:
    """An entry of a list of facts, around its value; `compared` says what is usual."""
    more = f' <span class="compared">{isolated(compared)}</span>' if compared else ""
    return lambda value: f"<div><dt>{isolated(name)}</dt><dd>{to_unicode(value)}{more}</dd></div>"


def banner(kind: Literal["error", "warning", "info"], title: str) -> Around:
    """What has to be read first, around what it says."""
    begin = f'<section class="banner is-{kind}"><h2>{isolated(title)}</h2>'
    return lambda body: f"{begin}{to_unicode(body)}</section>"


def wide_table(label: str, style: str = "") -> Around:
    """A table that scrolls sideways, around its rows; one of `figures` is of cards on phones."""
    begin = f'<div class="wide" tabindex="0" role="region" aria-label="{_text(label)}">'
    table = f'<table class="{f"list {style}".strip()}">'
    named = _with_heads if "figures" in style.split() else to_unicode
    return lambda rows: f"{begin}{table}{named(rows)}</table></div>"


def _with_heads(rows: bytes) -> str:
    """Give the cells of a table the names of their columns, for where these stand one by one."""
    head, body_tag, body = str(to_unicode(rows)).partition("<tbody>")
    # `<thead` begins so as well.
    heads = [_name_in(each) for each in head.split("<th")[1:] if each[:1] in (">", " ", "\n")]
    columns = iter(heads)

    def begin(tag: re.Match[str]) -> str:
        nonlocal columns
        if tag[0] == "<tr":
            columns = iter(heads)
            return tag[0]
        name = next(columns)
        return f'<td data-head="{name}"' if name else tag[0]

    return f"{head}{body_tag}{_CELL.sub(begin, body)}"


def _name_in(cell: str) -> str:
    """Return the text of the head of a column, given what follows `<th`."""
    content = cell.partition(">")[2].partition("</th>")[0]
    return " ".join(_TAG.sub("", content).split())


def _tab(name: str, address: str, number: int | None, *, is_chosen: bool) -> str:
    here = ' aria-current="page"' if is_chosen else ""
    count = "" if number is None else f' <span class="quiet">{number:,}</span>'
    return f'<a href="{_text(address)}"{here}>{isolated(name)}{count}</a>'


def _attributes(attributes: Mapping[str, str | bool]) -> str:
    return "".join(
        f" {name}" if value is True else f' {name.replace("_", "-")}="{_text(str(value))}"'
        for name, value in attributes.items()
    )


def _text(text: str) -> str:
    return str(xhtml_escape(text))
