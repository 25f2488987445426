"""Converts HTML to Markdown: text, headings, links, lists, tables and code; no images.

Made for real pages: no page makes it fail, and what it does not understand is kept as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from urllib.parse import urljoin

# Elements whose content is not meant for readers.
_DROPPED = frozenset(
    ("script", "style", "template", "svg", "math", "iframe", "object", "select", "title")
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_BLOCKS = {
    *("address", "article", "aside", "body", "caption", "dd", "details", "div", "dl", "dt"),
    *("fieldset", "figcaption", "figure", "footer", "form", "header", "html", "main", "nav"),
    *("p", "section", "summary", "table", "tbody", "tfoot", "thead"),
}
_MARKS = {"strong": "**", "b": "**", "em": "*", "i": "*", "del": "~~", "s": "~~"}
# Deeper lists and quotes are shown at this depth, as their indentation would outgrow the page.
_DEEPEST = 12
# Marks and links inside so many others are left out: each is part of the text of all around it.
_DEEPEST_MARKS = 12
# Between two looks at whether the text is still wanted.
_TAGS_BETWEEN_LOOKS = 1_000
# Relative links, and lines of nested quotes, can be many times longer than they are written.
MOST_CHARACTERS = 64 * 1024 * 1024
_BLANKS = re.compile(r"[ \t\n\r\f]+")
_BACKTICKS = re.compile(r"`+")


class NotConverted(Exception):
    """A page could not be converted; the text says why."""


def from_html(
    html: str,
    base_url: str = "",
    *,
    without: frozenset[str] = frozenset(),
    most: int = MOST_CHARACTERS,
    stopped: Callable[[], bool] = lambda: False,
) -> str:
    """Convert a page to Markdown; links are made absolute with the page's own address.

    Takes linear time.

    Args:
        without: more tags whose content is left out.
        most: characters of the Markdown.
        stopped: whether it is no longer needed; asked now and then.

    Raises:
        NotConverted: the Markdown would be longer, or is no longer needed.
    """
    converter = _Converter(base_url, _DROPPED | without, most, stopped)
    converter.feed_page(html)
    return converter.markdown()


class PageParser(HTMLParser):
    """Parses pages as they are, in linear time."""

    def feed_page(self, html: str) -> None:
        """Parse a whole page; a tag or comment left open at its end is dropped.

        In `close` the library would search for the end of each again: for minutes in a page of 200
        KB.
        """
        self.feed(f"{html}\n<")  # text is complete once something follows it

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Skip `<![…>` as browsers do; for most of them the library raises an AssertionError."""
        return self.parse_bogus_comment(i, report)


class _Converter(PageParser):
    """Collects finished blocks, and inline text in frames: of the block, a link, or code."""

    def __init__(
        self, base_url: str, dropped: frozenset[str], most: int, stopped: Callable[[], bool]
    ) -> None:
        super().__init__(convert_charrefs=True)
        self._base_url = base_url
        self._left = most  # characters that may still be made
        self._stopped = stopped
        self._tags = 0
        self._blocks: list[str] = []
        self._frames: list[list[str]] = [[]]
        self._frameless = 0  # open marks and links without a frame, as there are too many
        self._links: list[str] = []  # targets of the open links
        self._lists: list[int | None] = []  # next number of each open list; None: bullets
        self._after = (0, 0)  # number of quotes and lists that contained the last block
        self._item = ""  # mark for the next block of a list item
        self._quotes = 0
        self._dropped = dropped
        self._dropping: list[str] = []  # the open tags whose content is left out, each once
        self._pre = 0
        self._rows: list[list[str]] | None = None  # of the open table
        self._heading = ""

    def markdown(self) -> str:
        while len(self._frames) > 1:
            self._close_frame()
        self._end_block()
        self._end_table()
        return "\n".join(self._blocks).strip("\n")

    # ---- events

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tags += 1
        if self._tags % _TAGS_BETWEEN_LOOKS == 0 and self._stopped():
            raise NotConverted("it is no longer needed")
        if tag in self._dropped:
            if tag not in self._dropping:
                self._dropping.append(tag)
        elif not self._dropping:
            self._open(tag, {name: value or "" for name, value in attrs})

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self._dropped:
            self.handle_starttag(tag, attrs)
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._dropping:
            del self._dropping[self._dropping.index(tag) :]
        elif not self._dropping:
            self._close(tag)

    def handle_data(self, data: str) -> None:
        if not self._dropping:
            self._frames[-1].append(data if self._pre else _BLANKS.sub(" ", data))

    # ---- tags

    def _open(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "a" or tag in _MARKS or (tag == "code" and not self._pre):
            self._open_inline(tag, attributes)
        elif tag == "br":
            self._frames[-1].append("\n")
        elif tag == "hr":
            self._end_block()
            self._add("---")
        else:
            self._open_block(tag)

    def _open_block(self, tag: str) -> None:
        if tag in _BLOCKS or tag in _HEADINGS or tag in ("ul", "ol", "li", "blockquote", "pre"):
            self._end_block()
        if tag in _HEADINGS:
            self._heading = _HEADINGS[tag] + " "
        elif tag in ("ul", "ol"):
            self._lists.append(1 if tag == "ol" else None)
        elif tag == "li":
            self._start_item()
        elif tag == "blockquote":
            self._quotes += 1
        elif tag == "pre":
            self._pre += 1
        elif tag == "table":
            self._end_table()
            self._rows = []
        elif tag == "tr" and self._rows is not None:
            self._end_cell()
            self._rows.append([])
        elif tag in ("td", "th"):
            self._end_cell()

    def _close(self, tag: str) -> None:
        if tag == "a" or tag in _MARKS or (tag == "code" and not self._pre):
            self._close_inline(tag)
        elif tag in ("td", "th", "tr"):
            self._end_cell()
        elif tag == "pre":
            self._end_code()
        elif tag in _BLOCKS or tag in _HEADINGS or tag in ("ul", "ol", "li", "blockquote"):
            self._end_block()
            self._close_block(tag)

    def _close_block(self, tag: str) -> None:
        if tag in ("ul", "ol") and self._lists:
            self._lists.pop()
        elif tag == "blockquote":
            self._quotes = max(0, self._quotes - 1)
        elif tag == "table":
            self._end_table()
        if tag in ("li", "ul", "ol"):
            self._item = ""

    # ---- inline

    def _open_inline(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._frames) > _DEEPEST_MARKS:
            self._frameless += 1
            return
        self._frames.append([])
        if tag == "a":
            self._links.append(attributes.get("href", ""))

    def _close_inline(self, tag: str) -> None:
        if self._frameless:
            self._frameless -= 1
            return
        if len(self._frames) == 1:  # never opened, or its block has ended
            return
        text = self._close_frame()
        inner = text.strip()
        if tag == "a":
            href = self._links.pop() if self._links else ""
            link = self._link(inner, href)
            self._spend(len(link))
            self._frames[-1].append(_around(text, link))
        elif tag == "code":
            self._frames[-1].append(_around(text, _code(inner)))
        elif inner:
            self._frames[-1].append(_around(text, f"{_MARKS[tag]}{inner}{_MARKS[tag]}"))

    def _close_all(self) -> None:
        """Make marks and links that were never closed part of the text around them."""
        while len(self._frames) > 1:
            text = self._close_frame()
            self._frames[-1].append(text)
        self._links.clear()
        self._frameless = 0

    def _close_frame(self) -> str:
        return "".join(self._frames.pop())

    def _link(self, text: str, href: str) -> str:
        try:
            target = urljoin(self._base_url, href.strip())
        except ValueError:  # a malformed address
            return text
        if not text or not href or target.startswith(("javascript:", "data:")):
            return text
        return f"[{' '.join(text.split())}]({target.replace(' ', '%20')})"

    # ---- blocks

    def _end_block(self) -> None:
        """Finish the current paragraph, heading or list item."""
        self._close_all()
        if self._rows is not None and self._rows:  # the cell continues
            self._frames[-1].append(" ")
            return
        lines = [line.strip() for line in "".join(self._frames[-1]).split("\n")]
        self._frames[-1].clear()
        text = "\n".join(lines).strip("\n")
        if text:
            self._add(self._heading + (" ".join(lines).strip() if self._heading else text))
        self._heading = ""

    def _end_code(self) -> None:
        text = "".join(self._frames[-1]).strip("\n")
        self._frames[-1].clear()
        self._pre = max(0, self._pre - 1)
        if text.strip():
            fence = "`" * max(3, 1 + _longest_backticks(text))
            self._add(f"{fence}\n{text}\n{fence}")

    def _start_item(self) -> None:
        number = self._lists[-1] if self._lists else None
        if number is None:
            self._item = "- "
        else:
            self._item = f"{number}. "
            self._lists[-1] = number + 1

    def _add(self, text: str) -> None:
        """Append a block, indented for the open lists and quotes."""
        quotes, depth = min(self._quotes, _DEEPEST), min(len(self._lists), _DEEPEST)
        quote, inside = "> " * quotes, "   " * depth
        first = "   " * (depth - 1) + self._item if self._item and depth else inside
        lines = text.split("\n")
        self._spend(len(text) + len(lines) * len(quote + inside))
        prefixed = [quote + first + lines[0], *(quote + inside + line for line in lines[1:])]
        in_list = bool(self._item) and self._after[1] > 0
        if self._blocks and not in_list:  # no blank lines between items
            self._blocks.append(("> " * min(quotes, self._after[0])).rstrip())
        self._blocks.extend(line.rstrip() for line in prefixed)
        self._item = ""
        self._after = (quotes, depth)

    def _spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise NotConverted("its text is too long")

    # ---- tables

    def _end_cell(self) -> None:
        self._close_all()
        if self._rows is None:  # a cell outside of any table
            self._frames[-1].append(" ")
            return
        text = " ".join("".join(self._frames[-1]).split())
        self._frames[-1].clear()
        if text:
            if not self._rows:
                self._rows.append([])
            self._rows[-1].append(text.replace("|", r"\|"))

    def _end_table(self) -> None:
        if self._rows is None:
            return
        self._end_cell()
        rows = [row for row in self._rows if row]
        self._rows = None
        if rows:
            # Only the head needs all columns: other rows may be shorter.
            width = max(map(len, rows))
            rows[0] += [""] * (width - len(rows[0]))
            lines = [f"| {' | '.join(row)} |" for row in rows]
            self._add("\n".join([lines[0], "|" + "---|" * width, *lines[1:]]))


def _around(text: str, inner: str) -> str:
    """Return what replaces a text, with the blanks around the text kept outside."""
    if not inner:
        return " " if text else ""
    before = " " if text[:1].isspace() else ""
    after = " " if text[-1:].isspace() else ""
    return before + inner + after


def _code(text: str) -> str:
    if not text:
        return ""
    fence = "`" * (1 + _longest_backticks(text) if "`" in text else 1)
    blank = " " if "`" in text else ""
    return f"{fence}{blank}{text}{blank}{fence}"


def _longest_backticks(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text)), default=0)
