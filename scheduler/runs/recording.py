"""Recordings: the model and tool calls of a run, one JSON line each, for replay.

    {"made_with": {"prompt": "…", "model": "openai:gpt-4o-mini", "mcp_server_support": true}}
    {"node": "sort", "request": {…}, "reply": {…}, "usage": {…}}
    {"node": "sort", "request": {…}, "reply": {…}, "finish": "length", "usage": {…}}
    {"node": "sort", "request": {…}, "reply": {…}, "economy": true, "usage": {…}}
    {"node": "sort", "request": {…}, "error": "HTTP 429: …"}
    {"node": "sort", "tool": "fs_cat", "arguments": {…}, "result": …}

The first line says what the run was given and which settings determined its calls; a replay uses
them too. `request` is what the model was asked (model, messages, tools, settings, and
`response_format` if the schema of the reply was a field and not in the messages), `reply` the
assistant's message, `finish` why it ended before the model was done, `economy` whether it came with
a batch of the provider, `error` why there was none.
Hand-written calls have no `request`: they reply to whatever their node asks next or, without a
`node`, to whatever is asked next.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

from sleipnir.graphs.mcp.filters import MAX_PATTERN_CHARS, MAX_PATTERNS, ToolFilter
from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.model import NO_USAGE, Usage

# Per recording, for what runs store in Redis and for what files bring there.
LIMIT_BYTES = 16 * 1024 * 1024

# Why a reply ended before the model was done: at its greatest length, or by a content filter.
Finish: TypeAlias = Literal["length", "content_filter"]
_FINISHES: Final = get_args(Finish)

# The same for people, as a remark on a reply.
FINISH_NOTES: Mapping[str, str] = {
    "length": "cut off",
    "content_filter": "stopped by a content filter",
}
# And on one whose schema was a field of the request.
NATIVE_NOTE: Final = "schema in response_format"


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One model call; `reply` is None if it failed."""

    reply: Mapping[str, Any] | None = None
    error: str = ""
    request: Mapping[str, Any] | None = None
    node: str | None = None
    usage: Usage = NO_USAGE
    finish: Finish | None = None  # None: the model was done
    economy: bool = False  # whether the reply came with a batch of the provider

    def to_json(self) -> dict[str, Any]:
        outcome: dict[str, Any] = {"error": self.error}
        if self.reply is not None:
            ended = {} if self.finish is None else {"finish": self.finish}
            batched = {"economy": True} if self.economy else {}
            outcome = {"reply": self.reply, **ended, **batched, "usage": self.usage.to_json()}
        given = {"node": self.node, "request": self.request}
        return {**{name: value for name, value in given.items() if value is not None}, **outcome}


@dataclass(frozen=True, slots=True)
class RecordedToolCall:
    """One call of a tool from a tool file or an MCP server."""

    tool: str
    arguments: Mapping[str, Any]
    result: Any  # as the model got it
    node: str | None = None

    def to_json(self) -> dict[str, Any]:
        node = {} if self.node is None else {"node": self.node}
        return {
            **node,
            "tool": self.tool,
            "arguments": dict(self.arguments),
            "result": self.result,
        }


@dataclass(frozen=True, slots=True)
class MadeWith:
    """What a run was given, and the settings that determine which calls agents make.

    Nothing here gives rights: a recording may come from anybody.
    """

    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    rag_embedding_model: str | None = None
    mcp_server_support: bool | None = None
    skills_enabled: bool | None = None
    mcp_tools: ToolFilter | None = None
    prompt: str | None = None  # of the only run

    def to_json(self) -> dict[str, Any]:
        given = {name: getattr(self, name) for name in _MADE_WITH}
        return {"made_with": {name: value for name, value in given.items() if value is not None}}

    def settings(self) -> dict[str, Any]:
        """Return the settings that were set, by name."""
        given = {name: getattr(self, name) for name in SETTINGS_OF_CALLS}
        return {name: value for name, value in given.items() if value is not None}


SETTINGS_OF_CALLS: Final = (
    "model",
    "temperature",
    "top_p",
    "rag_embedding_model",
    "mcp_server_support",
    "skills_enabled",
    "mcp_tools",
)
_MADE_WITH: Final[Mapping[str, tuple[type, ...]]] = {
    "model": (str,),
    "temperature": (int, float),
    "top_p": (int, float),
    "rag_embedding_model": (str,),
    "mcp_server_support": (bool,),
    "skills_enabled": (bool,),
    "mcp_tools": (dict,),
    "prompt": (str,),
}

Recorded: TypeAlias = RecordedCall | RecordedToolCall | MadeWith


def model_calls(entries: Iterable[Recorded]) -> tuple[RecordedCall, ...]:
    """Return the calls of models among the entries of a recording."""
    return tuple(entry for entry in entries if isinstance(entry, RecordedCall))


def made_with(entries: Sequence[Recorded]) -> MadeWith | None:
    """Return what a recording was made with; None if it does not say."""
    first = entries[0] if entries else None
    return first if isinstance(first, MadeWith) else None


def written(calls: Iterable[Recorded]) -> str:
    """Return a recording as the text of a file."""
    return "".join(f"{encode(call.to_json())}\n" for call in calls)


def read(text: str, source: str) -> list[Recorded]:
    """Parse a recording.

    Args:
        source: the name of the recording in messages.

    Raises:
        SubmissionRefused: a line does not belong to a recording.
    """
    calls: list[Recorded] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                calls.append(_entry(json.loads(line)))
            except (ValueError, TypeError, RecursionError) as error:
                message = f"{source}:{number}: this is not a valid recorded call: {error}"
                raise SubmissionRefused(message) from error
    return calls


def _entry(value: Any) -> Recorded:
    if not isinstance(value, dict):
        raise ValueError("expected an object")
    if "made_with" in value:
        return _made_with(value["made_with"])
    return _tool_call(value) if "tool" in value else _call(value)


def _made_with(value: Any) -> MadeWith:
    if not isinstance(value, dict):
        raise ValueError("'made_with' is not an object")
    for name, given in value.items():
        types = _MADE_WITH.get(name)
        if types is None:
            raise ValueError(f"'made_with' has the unknown field '{name}'")
        if not isinstance(given, types) or (isinstance(given, bool) and bool not in types):
            raise ValueError(f"'{name}' of 'made_with' has the wrong type")
    if not all(map(_are_patterns, value.get("mcp_tools", {}).values())):
        raise ValueError("'mcp_tools' of 'made_with' has the wrong type")
    return MadeWith(**value)


def _are_patterns(given: Any) -> bool:
    return (
        isinstance(given, list)
        and len(given) <= MAX_PATTERNS
        and all(isinstance(each, str) and len(each) <= MAX_PATTERN_CHARS for each in given)
    )


def _tool_call(value: dict[str, Any]) -> RecordedToolCall:
    tool, arguments, node = value["tool"], value.get("arguments"), value.get("node")
    if not isinstance(tool, str):
        raise ValueError("'tool' is not a string")
    if not isinstance(arguments, dict):
        raise ValueError("'arguments' is not an object")
    if "result" not in value:
        raise ValueError("it has no 'result'")
    if node is not None and not isinstance(node, str):
        raise ValueError("'node' is not a string")
    return RecordedToolCall(tool, arguments, value["result"], node)


def _call(value: dict[str, Any]) -> RecordedCall:
    reply, error, request = value.get("reply"), value.get("error"), value.get("request")
    if not isinstance(reply, dict) and not isinstance(error, str):
        raise ValueError("it has neither a 'reply' nor an 'error'")
    if request is not None and not isinstance(request, dict):
        raise ValueError("'request' is not an object")
    if isinstance(reply, dict):
        _check_reply(reply)
    if request is not None:
        _check_request(request)
    node = value.get("node")
    if node is not None and not isinstance(node, str):
        raise ValueError("'node' is not a string")
    return RecordedCall(
        reply=reply if isinstance(reply, dict) else None,
        error=error or "",
        request=request,
        node=node,
        usage=_usage(value.get("usage") or {}),
        finish=_finish(value.get("finish")),
        economy=value.get("economy") is True,
    )


def _finish(value: Any) -> Finish | None:
    if value is not None and value not in _FINISHES:
        raise ValueError(f"'finish' is none of {', '.join(_FINISHES)}")
    found: Finish | None = value
    return found


def _check_request(request: dict[str, Any]) -> None:
    for name, kind, expected in (
        ("messages", list, "a list"),
        ("tools", list, "a list"),
        ("settings", dict, "an object"),
    ):
        if not isinstance(request.get(name) or kind(), kind):
            raise ValueError(f"'{name}' of the request is not {expected}")
    for message in request.get("messages") or ():
        if not isinstance(message, dict):
            raise ValueError("a message of the request is not an object")
        if not isinstance(message.get("tool_calls") or [], list):
            raise ValueError("'tool_calls' of a message of the request is not a list")


def _check_reply(message: dict[str, Any]) -> None:
    if not isinstance(message.get("content") or "", str):
        raise ValueError("'content' of the reply is not a string")
    if not isinstance(message.get("refusal") or "", str):
        raise ValueError("'refusal' of the reply is not a string")
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list) or not all(map(_is_call, calls)):
        raise ValueError(
            "'tool_calls' of the reply is not a list of objects with 'id' and 'function', "
            "which has 'name' and 'arguments', all of them strings"
        )


def _is_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return False
    texts = (call.get("id"), function.get("name"), function.get("arguments"))
    return all(isinstance(text, str) for text in texts)


def _usage(value: Any) -> Usage:
    if not isinstance(value, dict):
        raise ValueError("'usage' is not an object")
    return Usage.reported(
        value.get("prompt_tokens"),
        value.get("completion_tokens"),
        value.get("cost_usd", 0.0),
        value.get("cached_tokens"),
        value.get("cache_written_tokens"),
    )
