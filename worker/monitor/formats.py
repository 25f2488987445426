"""Formats states, times and amounts for pages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from math import floor, log10
from typing import Any, Final
from unicodedata import bidirectional
from urllib.parse import quote, urlencode

from tornado.escape import xhtml_escape

from sleipnir.graphs.drawing.text import Style, width_of
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.consent import MOST_LISTED, call_text
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.worker.tools.sanitize import without_escapes

NONE: Final = "\N{EN DASH}"


@dataclass(frozen=True, slots=True)
class StateLook:
    """A sign and a word for a state; colours only repeat it."""

    glyph: str
    word: str


LOOKS: Final[Mapping[str, StateLook]] = {
    "queued": StateLook("○", "queued"),
    "running": StateLook("◐", "running"),
    "waiting": StateLook("◆", "waiting"),
    "succeeded": StateLook("✓", "succeeded"),
    "done": StateLook("✓", "done"),
    "tolerated": StateLook("✕", "failed, continued"),
    "staged": StateLook("✓", "done, not committed"),
    "failed": StateLook("✕", "failed"),
    "interrupted": StateLook("⊘", "interrupted"),
    "cancelled": StateLook("⊘", "cancelled"),
    "timed_out": StateLook("◷", "timed out"),
    "untouched": StateLook(NONE, "not reached"),
}
_HEADING: Final = re.compile(r"^[#>]+ +")
_STRONG: Final = re.compile(r"\*\*([^*\n]+)\*\*")
# What fits beside the sign of the narrowest box of a drawing; estimates are generous.
_NODE_LINE: Final = Style(12)
_NODE_LINE_WIDTH: Final = 112.0
_MOST_OF_ITEMS: Final = 19
# Each unit, and the next smaller one that is named with it.
_UNITS: Final = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))
# Of the characters that are invisible; the joiner makes one emoji of several.
_KEPT: Final = frozenset("\n\t\N{ZERO WIDTH JOINER}")
# From here on, two decimals are enough.
_LEAST_CENTS: Final = 0.995
_RIGHT_TO_LEFT: Final = frozenset(
    {"R", "AL", "AN", "RLE", "RLO", "RLI", "LRE", "LRO", "LRI", "FSI"}
)


def glyph(state: str) -> str:
    """Return the sign of a state."""
    return LOOKS[state].glyph if state in LOOKS else "·"


def word(state: str) -> str:
    """Return the word for a state."""
    return LOOKS[state].word if state in LOOKS else state


def node_line(node: Mapping[str, Any], *, is_over: bool = False) -> str:
    """Return what matters now of a node of `graph_document`, short enough for its box.

    Args:
        is_over: whether its run has ended.
    """
    state = node["state"]
    if node["items"] is not None:
        return _items_line(node)
    match state:
        case "untouched":
            return ""
        case "staged":
            return f"{glyph(state)} {'done, not kept' if is_over else 'done'}"
        case "done":
            return f"{glyph(state)} {_amounts(node)}"
        case "failed" | "timed_out" | "interrupted" if node["total_s"]:
            return _fitting(f"{glyph(state)} {word(state)}", f" · {span(node['total_s'])}")
    return f"{glyph(state)} {word(state)}"


def _items_line(node: Mapping[str, Any]) -> str:
    done, total = node["items"]["done"], node["items"]["total"]
    failed = f" ✕{node['failed']:,}" if node["failed"] else ""
    line = f"{glyph(node['state'])} {done:,}/{total:,}{failed}"
    if len(line) <= _MOST_OF_ITEMS:
        return line
    return f"{glyph(node['state'])} {100 * done // max(total, 1)} %{failed}"


def _amounts(node: Mapping[str, Any]) -> str:
    """Return how long a node took, and what it cost if there is room for it."""
    if node["failed"]:
        return f"done ✕{node['failed']:,}"
    cost = node["usage"]["cost_usd"]
    return _fitting(span(node["total_s"]), f" · {usd(cost)}" if cost != 0 else "")


def _fitting(line: str, more: str) -> str:
    return line + more if width_of(line + more, _NODE_LINE) <= _NODE_LINE_WIDTH else line


def span(seconds: float | None) -> str:
    """Format a duration: `0.08 s`, `3.2 s`, `12 s`, `1 min 38 s`, `2 h 5 min`, `3 d`."""
    if seconds is None:
        return NONE
    if seconds < 9.95:
        return f"{seconds:.2g} s"
    for length, unit, part, part_unit in _UNITS:
        parts = round(seconds / part)
        if parts * part >= length:
            whole, rest = divmod(parts, length // part)
            return f"{whole:,} {unit} {rest} {part_unit}" if rest else f"{whole:,} {unit}"
    return f"{seconds:.0f} s"


def about(number: float | None, text: Callable[[float], str]) -> str:
    """Format a number that is known about; a dash if there is none."""
    return f"≈ {text(number)}" if number else NONE


def mean_wait(row: Mapping[str, Any]) -> str:
    """Format how long the calls of a row waited for limits on average; a dash if none did."""
    return span(row["waited_s"] / row["calls"]) if row["waited_s"] else NONE


def within(seconds: float | None, of: int) -> str:
    """Format an upper bound on durations; a dash if there were none."""
    if not of:
        return NONE
    return "> 1 d" if seconds is None else span(seconds)


def share(part: int, whole: int) -> str:
    """Format a part as a percentage."""
    return f"{100 * part / whole:.3g} %" if whole else NONE


def count(number: int) -> str:
    """Format a count; a dash for zero."""
    return f"{number:,}" if number else NONE


def whole(value: int) -> str:
    """Format a number, also zero."""
    return f"{value:,}"


def digits(number: float) -> str:
    """Format a number that is rarely whole: `0.0222`, `3.45`, `41.2`, `1,240`."""
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"


def usd(cost: float | None) -> str:
    """Format a cost; a dash for zero, a question mark if a price is unknown."""
    if cost is None:
        return "?"
    return money(cost) if cost else NONE


def money(cost: float) -> str:
    """Format an amount: `$0.0064`, `$0.50`, `$36.74`, `$1,234.50`, `$120`."""
    if cost >= _LEAST_CENTS:
        return f"${cost:,.2f}".removesuffix(".00")
    return f"${cost:.{1 - floor(log10(cost))}f}" if cost > 0 else "$0"


def change(now: float, before: float, than: str = "") -> str:
    """Format how a number compares with the one before: `+12 %`, `3.1 times`.

    Args:
        than: what that was, to be named: `+12 % on the day before`, `3.1 times the day before`.
    """
    if not before:
        return "nothing before" if now else NONE
    times = now / before
    if times >= 2:
        return f"{times:,.0f} times {than}" if times >= 9.95 else f"{times:.1f} times {than}"
    return f"{100 * (times - 1):+.0f} %{f' on {than}' if than else ''}".replace(
        "-", "\N{MINUS SIGN}"
    )


def amount(number: int) -> str:
    """Format a large number short: `812`, `9.1 k`, `12 M`."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if number >= size:
            part = number / (1_000 if unit == "k" else size)
            return f"{part:,.3g} {unit}" if part < 1_000 else f"{part:,.0f} {unit}"
    return f"{number:,}"


def megabytes(number: int) -> str:
    """Format an amount of memory."""
    return f"{number / 1_048_576:,.0f} MiB"


def size(characters: int) -> str:
    """Format the length of a text: `812 B`, `41 KB`, `1.2 MB`."""
    if characters < 1_000:
        return f"{characters} B"
    if characters < 999_500:
        return f"{characters / 1_000:.{0 if characters >= 9_950 else 1}f} KB"
    return f"{characters / 1_000_000:,.1f} MB"


def instant(rfc3339: str | None) -> str:
    """Format an instant, down to seconds."""
    return NONE if rfc3339 is None else f"{rfc3339[:10]} {rfc3339[11:19]} UTC"


def clock_ms(rfc3339: str | None) -> str:
    """Format an instant of a known day, down to milliseconds."""
    return NONE if rfc3339 is None else rfc3339[11:23]


def short(run_id: str) -> str:
    """Return enough digits of an id to tell runs apart."""
    return run_id[:8]


def first_line(text: str | None, width: int = 120) -> str:
    """Return the beginning of a text, on one line."""
    line = ((text or "").strip().splitlines() or [""])[0]
    return line if len(line) <= width else f"{line[: width - 1]}…"


def headline(text: str | None, width: int = 120) -> str:
    """Return the beginning of a text that may be Markdown, on one line, without its marks."""
    return first_line(_HEADING.sub("", _STRONG.sub(r"\1", (text or "").strip())), width)


def visible(text: str) -> str:
    """Make a text's control characters visible."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in _KEPT else char.encode("unicode_escape").decode()
        for char in text
    )


def isolated(text: str) -> str:
    """Return a text of others as HTML: one that runs from right to left leaves its place alone."""
    shown = str(xhtml_escape(visible(text)))
    if text.isascii() or not any(bidirectional(char) in _RIGHT_TO_LEFT for char in text):
        return shown
    return f"<bdi>{shown}</bdi>"


def pretty(value: Any) -> str:
    """Format a value of the state: a string as it is, anything else as indented JSON."""
    if isinstance(value, str):
        return visible(value)
    return visible(json.dumps(value, ensure_ascii=False, indent=2))


def call_excerpt(call: Mapping[str, Any]) -> str:
    """Format a guarded call for a list; what is left out is counted."""
    return visible(call_text(call["function"], call["arguments"], MOST_LISTED))


def call_whole(call: Mapping[str, Any]) -> str:
    """Format a guarded call in full."""
    return visible(call_text(call["function"], call["arguments"]))


def url_query(**fields: str | None) -> str:
    """Return the query of an address; without the fields that are None or empty."""
    return urlencode({name: value for name, value in fields.items() if value})


NAMES: Final[Mapping[str, Callable[..., Any]]] = {
    "glyph": glyph,
    "word": word,
    "span": span,
    "within": within,
    "about": about,
    "mean_wait": mean_wait,
    "digits": digits,
    "share": share,
    "count": count,
    "usd": usd,
    "change": change,
    "amount": amount,
    "megabytes": megabytes,
    "size": size,
    "instant": instant,
    "clock_ms": clock_ms,
    "short": short,
    "rfc3339": to_rfc3339,
    "first_line": first_line,
    "headline": headline,
    "visible": visible,
    "without_escapes": without_escapes,
    "isolated": isolated,
    "money": money,
    "whole": whole,
    "pretty": pretty,
    "call_excerpt": call_excerpt,
    "call_whole": call_whole,
    "url_path": quote,
    "url_query": url_query,
}
