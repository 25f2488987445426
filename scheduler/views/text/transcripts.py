"""Formats conversations with models for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sleipnir.scheduler.runs.model import Usage
from sleipnir.scheduler.runs.recording import FINISH_NOTES, NATIVE_NOTE
from sleipnir.scheduler.views.text.content import content_text
from sleipnir.scheduler.views.text.formatting import cost, tokens
from sleipnir.scheduler.views.text.terminal_output import printable, style


def transcript_lines(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of one visit's conversation, each prefixed by node and role."""
    item = "" if entry["index"] is None else f"[{entry['index']}]"
    place = f"{entry['step']} {entry['node']}{item}"
    if entry["attempt"] > 1 or entry["failed"]:
        tried = f"try {entry['try']}, " if entry.get("try", 1) > 1 else ""
        failed = ", failed" * entry["failed"]
        yield style(f"{place} {tried}attempt {entry['attempt']}{failed}", bold=True)
    for number, exchange in enumerate(entry["exchanges"]):
        if number == 0 and exchange.get("earlier"):
            yield style(f"{place} after {exchange['earlier']:,} earlier messages", dim=True)
        for role, line in _lines_of(exchange):
            yield f"{style(f'{place} {role} |', dim=True)} {printable(line)}"
        yield style(f"{place} {_about(exchange)}", dim=True)


def _lines_of(exchange: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what was sent and what came back, line by line, each with its role."""
    reply = exchange["reply"]
    for message in (*exchange["messages"], *([] if reply is None else [reply])):
        for line in _said(message):
            yield message["role"], line
    if reply is None:
        for line in exchange["error"]["message"].splitlines():
            yield "failed", line


def _said(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    if content:
        yield from content_text(content).splitlines()
    for call in message.get("tool_calls") or ():
        yield f"calls {call['function']['name']} {call['function']['arguments']}"


def _about(exchange: Mapping[str, Any]) -> str:
    """Return the model, and the usage and duration of the reply."""
    took = "" if exchange["seconds"] is None else f", {exchange['seconds']:.1f} s"
    if exchange["reply"] is None:
        return f"{exchange['model']}: no reply{took}"
    usage = Usage(*exchange["usage"])
    source = "" if exchange["source"] == "model" else f", {exchange['source']}"
    ended = f", {FINISH_NOTES[exchange['finish']]}" if "finish" in exchange else ""
    form = f", {NATIVE_NOTE}" if "native" in exchange else ""
    return f"{exchange['model']}: {tokens(usage)} tokens, {cost(usage)}{took}{source}{form}{ended}"
