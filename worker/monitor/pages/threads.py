"""Conversations with models as people read them: what was said, in turns.

A tool's result stands at the call that asked for it, a child run at the call that started it, and
what a page has no room for is left out and counted.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.conversation.roster import handle
from sleipnir.scheduler.views.text.content import content_text

# Characters: of a text, of one that the reader has asked for, and of all texts of a page.
_EACH: Final = 2_000
_WHOLE: Final = 131_072
_PAGE: Final = 262_144
_LINE: Final = 120  # of a call's arguments or result, when it is folded
_VALUE: Final = 60  # of one argument
_TOLD: Final = 60  # of its arguments, by which an event tells a call apart


@dataclass(frozen=True, slots=True)
class Said:
    """A text of a conversation."""

    id: str  # of the part of the page
    role: str
    text: str  # JSON if it is something else than texts and files
    left_out: int = 0  # characters


@dataclass(frozen=True, slots=True)
class ToolTime:
    """How long a tool took."""

    ms: int
    failed: bool


@dataclass(slots=True)
class ThreadCall:
    """A function that a model has called; its result comes later."""

    name: str
    line: str
    arguments: Said
    result: Said | None = None
    result_line: str = ""
    time: ToolTime | None = None
    child: Mapping[str, Any] | None = None  # of `children_document`


@dataclass(frozen=True, slots=True)
class ThreadTurn:
    """A call of a model: what was new to it, and what it replied."""

    number: int  # of the visit's calls, from 1
    exchange: Mapping[str, Any]
    visit: Mapping[str, Any]
    said: Sequence[Said]  # to the model; tools' results stand at their calls
    reply: Said | None  # its text
    calls: Sequence[ThreadCall]
    is_request: bool  # whether `said` repeats the conversation so far


@dataclass(slots=True)
class Thread:
    """A conversation: of a visit to a node, or of a try of a normal agent."""

    first: Mapping[str, Any]  # its first visit
    turns: list[ThreadTurn] = field(default_factory=list)
    is_failed: bool = False


class Shortener:
    """Cuts texts so that they fit on a page."""

    def __init__(self, each: int = _EACH) -> None:
        self._each = each
        self._room = _PAGE

    def said(self, ident: str, role: str, content: Any) -> Said:
        text = content_text(content)
        most = min(self._each, max(self._room, _LINE))
        shown = text if len(text) <= most else _cut(text, most)
        self._room -= len(shown)
        return Said(ident, role, shown, len(text) - len(shown))


class _Calls:
    """The calls of a conversation that have no result yet, and what is known of them."""

    def __init__(
        self,
        children: Sequence[Mapping[str, Any]],
        times: Mapping[tuple[str, str], deque[ToolTime]],
    ) -> None:
        self._open: dict[str, ThreadCall] = {}
        self._times = times
        self._children = {handle(each["agent"], each["run_id"]): each for each in children}

    def made(self, call: Mapping[str, Any], ident: str, shorten: Shortener) -> ThreadCall:
        name, arguments = call["function"]["name"], call["function"]["arguments"] or "{}"
        made = ThreadCall(name, _arguments(arguments), shorten.said(ident, "arguments", arguments))
        made.child = self._child(arguments)
        found = self._times.get((name, arguments[:_TOLD]))
        if found:
            made.time = found.popleft()
        self._open[str(call.get("id"))] = made
        return made

    def answered(self, message: Mapping[str, Any], ident: str, shorten: Shortener) -> bool:
        """Put a tool's result at its call; return False if that is not among those shown."""
        call = self._open.pop(str(message.get("tool_call_id")), None)
        if call is None:
            return False
        content = message.get("content") or ""
        text = _output(content)
        call.result, call.result_line = shorten.said(ident, "result", text), _line(text)
        call.child = call.child or self._child(content)
        return True

    def _child(self, text: Any) -> Mapping[str, Any] | None:
        name = _object(text).get("id") if self._children else None
        return self._children.get(name) if isinstance(name, str) else None


def threads_of(
    visits: Sequence[Mapping[str, Any]],
    *,
    is_one: bool,
    children: Sequence[Mapping[str, Any]] = (),
    times: Sequence[tuple[str, str, ToolTime]] = (),
    whole: bool = False,
) -> list[Thread]:
    """Return the conversations of visits, in their order.

    Args:
        visits: of `model_document`.
        is_one: whether all visits of a try are one conversation, as a normal agent's are.
        children: of `children_document`.
        times: of tool calls, in their order: the tool, the beginning of its arguments, the time.
        whole: whether long texts are wanted.
    """
    known: defaultdict[tuple[str, str], deque[ToolTime]] = defaultdict(deque)
    for tool, arguments, time in times:
        known[tool, arguments[:_TOLD]].append(time)
    shorten, calls = Shortener(_WHOLE if whole else _EACH), _Calls(children, known)
    threads: list[Thread] = []
    for visit in visits:
        last = threads[-1] if threads else None
        if last is None or not is_one or last.first.get("try", 1) != visit.get("try", 1):
            last = Thread(visit)
            threads.append(last)
        last.turns += _turns(visit, calls, shorten, is_begun=bool(last.turns))
        last.is_failed = bool(visit["failed"])
    return threads


def _turns(
    visit: Mapping[str, Any], calls: _Calls, shorten: Shortener, *, is_begun: bool
) -> Iterator[ThreadTurn]:
    for at, exchange in enumerate(visit["exchanges"], 1):
        number = exchange.get("number", at)
        place = (visit.get("try", 1), visit["step"], visit["attempt"], visit["index"] or 0, number)
        ident = "-".join(("said", *map(str, place)))
        is_request = is_begun and not exchange.get("earlier")
        said = [
            shorten.said(f"{ident}-{position}", message["role"], message["content"])
            for position, message in enumerate(exchange["messages"])
            if not calls.answered(message, f"{ident}-{position}", shorten) or is_request
            if message.get("content")
        ]
        reply = exchange["reply"] or {}
        text = reply.get("content")
        yield ThreadTurn(
            number,
            exchange,
            visit,
            said,
            shorten.said(f"{ident}-reply", "assistant", text) if text else None,
            [
                calls.made(call, f"{ident}-call-{position}", shorten)
                for position, call in enumerate(reply.get("tool_calls") or ())
            ],
            is_request,
        )
        is_begun = True


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text, up to the end of a line if there is one near."""
    end = text.rfind("\n", most * 3 // 4, most)
    return text[: end if end > 0 else most]


def _object(text: Any) -> Mapping[str, Any]:
    """Return a JSON object; an empty one if it is something else."""
    if not isinstance(text, str) or not text.startswith("{"):
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _output(content: Any) -> str:
    """Return a tool's result; a text that it returned stands in an object of its own."""
    found = _object(content)
    if found.keys() == {"output"} and isinstance(found["output"], str):
        return found["output"]
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _arguments(text: str) -> str:
    """Return arguments as a call would be written: `number: "10423", days: 3`."""
    parts = [
        f"{name}: {_line(json.dumps(value, ensure_ascii=False), _VALUE)}"
        for name, value in _object(text).items()
    ]
    return _line(", ".join(parts) if parts or text == "{}" else text)


def _line(text: str, most: int = _LINE) -> str:
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 1]}…"
