"""What the tab *Log* of a run's page shows: what its nodes have printed, visit by visit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, Final

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.views.documents import Document
from sleipnir.worker.monitor.handlers.run_parts import RunHandler
from sleipnir.worker.monitor.pages.output import output_html
from sleipnir.worker.tools.sanitize import without_escapes

# Characters: of an entry, of one that the reader has asked for, of all entries, of the oldest.
_EACH: Final = 8_000
_WHOLE: Final = 262_144
_PAGE: Final = 131_072
_LEAST: Final = 200


@dataclass(frozen=True, slots=True)
class LogLine:
    """An entry of the log."""

    number: int
    stream: str
    at: str | None
    since: str  # the start of the run: `+12.345 s`
    html: str
    left_out: int  # characters


@dataclass(frozen=True, slots=True)
class LogVisit:
    """What one attempt of a visit has printed."""

    entry: Mapping[str, Any]  # the first of its entries
    lines: Sequence[LogLine]


async def log_tab(page: RunHandler, of: Run, head: Document) -> dict[str, Any]:
    """Return what the template of the tab needs."""
    logs = await page.logs(of)
    whole = page.text_argument("whole") == "1"
    visits = await page.site.call(_visits, logs["entries"], head["created_at"], whole=whole)
    return {"logs": logs, "visits": visits}


def log_file(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return entries as a text, each with the time and what printed it."""
    return "\n".join(
        f"{_origin(each)}: {without_escapes(each['text']).rstrip()}\n" for each in entries
    )


def _visits(entries: Sequence[Mapping[str, Any]], start: str, *, whole: bool) -> list[LogVisit]:
    texts = _cut([each["text"].rstrip("\n") for each in entries], _WHOLE if whole else _EACH)
    lines = [
        LogLine(
            each["number"],
            each["stream"],
            each["at"],
            _since(each["at"], start),
            output_html(text),
            len(each["text"].rstrip("\n")) - len(text),
        )
        for each, text in zip(entries, texts, strict=True)
    ]
    found = groupby(zip(entries, lines, strict=True), key=lambda pair: _visit_of(pair[0]))
    groups = [list(pairs) for _, pairs in found]
    return [LogVisit(group[0][0], [line for _, line in group]) for group in groups]


def _visit_of(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(entry[name] for name in ("step", "node", "index", "try", "attempt"))


def _cut(texts: Sequence[str], each: int) -> Iterator[str]:
    """Cut texts so that they fit on a page, the first and oldest ones most."""
    room, shown = max(_PAGE, each), []
    for text in reversed(texts):
        shown.append(text[: min(each, max(room, _LEAST))])
        room -= len(shown[-1])
    return reversed(shown)


def _since(at: str | None, start: str) -> str:
    if at is None:
        return ""
    passed = datetime.fromisoformat(at) - datetime.fromisoformat(start)
    return f"+{passed.total_seconds():,.3f} s"


def _origin(entry: Mapping[str, Any]) -> str:
    """Return what printed a log entry."""
    index = "" if entry["index"] is None else f"[{entry['index']}]"
    attempt = "" if entry["attempt"] == 1 else f", attempt {entry['attempt']}"
    return f"{entry['at'] or '-'} {entry['step']} {entry['node']}{index} {entry['stream']}{attempt}"
