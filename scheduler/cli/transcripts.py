"""Formats conversations with models for a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sleipnir.scheduler.cli.formatting import cost, tokens
from sleipnir.scheduler.cli.terminal_output import printable, style
from sleipnir.scheduler.runs.model import Usage
from sleipnir.scheduler.runs.recording import FINISH_NOTES


def transcript_lines(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of one visit's conversation, each prefixed by node and role."""
    item = "" if entry["index"] is None else f"[{entry['index']}]"
    place = f"{entry['step']} {entry['node']}{item}"
    if entry["attempt"] > 1 or entry["failed"]:
        yield style(f"{place} attempt {entry['attempt']}{', failed' * entry['failed']}", bold=True)
    for exchange in entry["exchanges"]:
        for message in (*exchange["messages"], exchange["reply"]):
            origin = f"{place} {message['role']} |"
            for line in _said(message):
                yield f"{style(origin, dim=True)} {printable(line)}"
        yield style(f"{place} {_about(exchange)}", dim=True)


def _said(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    if content:
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        yield from text.splitlines()
    for call in message.get("tool_calls") or ():
        yield f"calls {call['function']['name']} {call['function']['arguments']}"


def _about(exchange: Mapping[str, Any]) -> str:
    """Return the model, and the usage and duration of the reply."""
    usage = Usage(*exchange["usage"])
    took = "" if exchange["seconds"] is None else f", {exchange['seconds']:.1f} s"
    source = "" if exchange["source"] == "model" else f", {exchange['source']}"
    ended = f", {FINISH_NOTES[exchange['finish']]}" if "finish" in exchange else ""
    return f"{exchange['model']}: {tokens(usage)} tokens, {cost(usage)}{took}{source}{ended}"
