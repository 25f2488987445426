"""What programs have printed, as HTML: their colours become classes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tornado.escape import xhtml_escape

from sleipnir.worker.monitor.formats import visible

if TYPE_CHECKING:
    from rich.style import Style
    from rich.text import Text

_ESCAPE: Final = "\x1b"
_LOOKS: Final = ("bold", "dim", "italic", "underline", "strike")
_COLOURS: Final = 8  # and their bright forms, which look the same
# Words that loggers write; in text that is escaped already.
_LEVELS: Final = re.compile(r"\b(?:(ERROR|CRITICAL|FATAL)|(WARN|WARNING))\b")


def output_html(text: str) -> str:
    """Return printed text as HTML: without control characters, with classes for colours."""
    if _ESCAPE not in text:
        return _LEVELS.sub(_level, _text(text))
    from rich.ansi import AnsiDecoder  # noqa: PLC0415 - 40 ms that most pages do not need

    decoder = AnsiDecoder()
    return "\n".join(_line(decoder.decode_line(line)) for line in text.splitlines())


def _line(line: Text) -> str:
    parts, at = [], 0
    for span in line.spans:
        parts.append(_text(line.plain[at : span.start]))
        inside, classes = _text(line.plain[span.start : span.end]), _classes(span.style)
        parts.append(f'<span class="{classes}">{inside}</span>' if classes else inside)
        at = span.end
    return "".join([*parts, _text(line.plain[at:])])


def _classes(style: str | Style) -> str:
    if isinstance(style, str):
        return ""
    classes = [f"ansi-{look}" for look in _LOOKS if getattr(style, look)]
    if style.color is not None and not style.color.is_default:
        classes.append(f"ansi-{_number(style)}")
    if style.reverse or (style.bgcolor is not None and not style.bgcolor.is_default):
        classes.append("ansi-marked")
    return " ".join(classes)


def _number(style: Style) -> int:
    """Return which of eight colours is nearest to that of a style."""
    from rich.color import ColorSystem  # noqa: PLC0415 - imported already

    assert style.color is not None
    return (style.color.downgrade(ColorSystem.STANDARD).number or 0) % _COLOURS


def _level(found: re.Match[str]) -> str:
    return f'<b class="ansi-{1 if found[1] else 3}">{found[0]}</b>'


def _text(text: str) -> str:
    return str(xhtml_escape(visible(text)))
