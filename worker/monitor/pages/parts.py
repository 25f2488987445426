"""Parts that many pages have, as templates name them.

`{% module run_link(run_id) %}` stands for a part, `{% apply fact('Steps') %}…{% end %}` for one
around other content. Addresses that they are given have the site's prefix already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from tornado.escape import to_unicode, xhtml_escape

from sleipnir.records import dataclass
from sleipnir.worker.monitor.access import Powers, User
from sleipnir.worker.monitor.formats import glyph, instant, isolated, short, visible, word

Around: TypeAlias = Callable[[bytes], str]

_MARKS: Mapping[str, str] = {"+": "is-added", "-": "is-removed"}
_NEEDED = ' disabled title="requires the role {}"'


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
        }

    def icon(self, name: str) -> str:
        """An icon; it only repeats a word that stands beside it."""
        address = f"{self.asset('icons.svg')}#{name}"
        return f'<svg class="icon" aria-hidden="true"><use href="{_text(address)}"/></svg>'

    def run_link(self, run_id: str) -> str:
        """A link to a run's page."""
        return f'<a href="{self.root}/runs/{_text(run_id)}"><code>{_text(short(run_id))}</code></a>'

    def state(self, status: str) -> str:
        """A state, as a sign and a word."""
        sign = f'<span aria-hidden="true">{_text(glyph(status))}</span>'
        return f'<span class="pill state-{_text(status)}">{sign} {_text(word(status))}</span>'

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

    def source(self, text: str) -> str:
        """The lines of a file."""
        lines = "".join(f"<span>{_text(line)}\n</span>" for line in visible(text).splitlines())
        return f'<pre class="source" tabindex="0">{lines}</pre>'

    def act_button(
        self, label: str, needs: Literal["answer", "operate"] = "operate", **attributes: str | bool
    ) -> str:
        """A button for those with a role; for others it is disabled, and says why."""
        given = "".join(
            f" {name}" if value is True else f' {name.replace("_", "-")}="{_text(str(value))}"'
            for name, value in attributes.items()
        )
        refused = "" if getattr(self.may, needs) else _NEEDED.format(needs)
        return f"<button{given}{refused}>{isolated(label)}</button>"

    def act_form(self, action: str, style: str = "steer") -> Around:
        """A form that changes something, around its fields; without action it goes to the page."""
        token = "" if self.visitor is None else self.visitor.form_token
        hidden = f'<input type="hidden" name="{_text(self.token_field)}" value="{_text(token)}">'
        given = [("action", action), ("class", style)]
        more = "".join(f' {name}="{_text(value)}"' for name, value in given if value)
        begin = f'<form method="post"{more}>{hidden}'
        return lambda content: f"{begin}{to_unicode(content)}</form>"


def fact(name: str) -> Around:
    """An entry of a list of facts, around its value."""
    return lambda value: f"<div><dt>{isolated(name)}</dt><dd>{to_unicode(value)}</dd></div>"


def wide_table(label: str, style: str = "") -> Around:
    """A table that scrolls sideways, around its rows."""
    begin = f'<div class="wide" tabindex="0" role="region" aria-label="{_text(label)}">'
    table = f'<table class="{f"list {style}".strip()}">'
    return lambda rows: f"{begin}{table}{to_unicode(rows)}</table></div>"


def _text(text: str) -> str:
    return str(xhtml_escape(text))
