"""Records the results of tools and MCP servers with a run, and returns them in a replay."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from sleipnir.scheduler.runs.recording import RecordedToolCall
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.recordings import Recordings
from sleipnir.worker.conversation.function_kinds import FunctionCall, ProgramFunction
from sleipnir.worker.llm.recording.redaction import redacted
from sleipnir.worker.tools.call import Completed, NeedsConfirmation
from sleipnir.worker.visit.context import Visit

# Recordings are large, but the runs of a batch share one.
_LOADED_AT_ONCE = 8
_SHOWN_CHARACTERS = 200

_Outcome = Completed | NeedsConfirmation
_Call = Callable[[FunctionCall], _Outcome]
_Results = Mapping[str, Sequence[RecordedToolCall]]


class ToolRecording:
    """Wraps tools in runs that are recorded or replayed."""

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings
        self._load = lru_cache(_LOADED_AT_ONCE)(self._loaded)

    def around(self, tool: ProgramFunction, visit: Visit[Any]) -> ProgramFunction:
        """Return the tool unchanged, wrapped to record results, or replaced by recorded ones."""
        context = visit.context
        if context.replay is not None and not context.live_tools:
            results = self._results(context.replay)
            if results:
                return replace(tool, call=partial(self._replayed, results, visit))
        if context.recorded:
            return replace(tool, call=partial(self._recorded, tool.call, visit))
        return tool

    def _recorded(
        self, call: _Call, visit: Visit[Any], invocation: FunctionCall
    ) -> Completed | NeedsConfirmation:
        outcome = call(invocation)
        if isinstance(outcome, Completed):
            recorded = RecordedToolCall(
                tool=invocation.name,
                arguments=redacted(invocation.arguments, visit.secrets),
                result=redacted(outcome.value, visit.secrets),
                node=visit.node_id,
            )
            # As for a model's reply: the call counts even if it cannot be recorded.
            with contextlib.suppress(RedisError):
                self._recordings.add(_root(visit), _key(invocation), recorded)
        return outcome

    def _replayed(
        self, results: _Results, visit: Visit[Any], invocation: FunctionCall
    ) -> Completed:
        """Return the n-th recorded result for the n-th of equal calls; after that, the last one."""
        arguments = redacted(invocation.arguments, visit.secrets)
        group = _group(invocation.name, arguments)
        found = results.get(group)
        if found is None:
            asked = json.dumps(arguments, ensure_ascii=False)[:_SHOWN_CHARACTERS]
            reason = f"this call of tool '{invocation.name}' is not in the recording: {asked}"
            message = f"node '{visit.node_id}': {reason}"
            self._recordings.miss(_root(visit), _key(invocation), message)
            return Completed({"tool_call_error": reason})
        if len(found) == 1:
            return Completed(found[0].result)
        turn = self._recordings.turn(_root(visit), _key(invocation), group)
        return Completed(found[min(turn, len(found)) - 1].result)

    def _results(self, digest: str) -> _Results:
        try:
            return self._load(digest)
        except LookupError:
            return {}  # the next model call reports that the recording has expired

    def _loaded(self, digest: str) -> _Results:
        calls = self._recordings.get(digest)
        if calls is None:  # do not cache: it may be uploaded again
            raise LookupError(digest)
        return _by_group(calls)


def _by_group(calls: Iterable[object]) -> _Results:
    groups: dict[str, list[RecordedToolCall]] = defaultdict(list)
    for call in calls:
        if isinstance(call, RecordedToolCall):
            groups[_group(call.tool, call.arguments)].append(call)
    return dict(groups)


def _group(tool: str, arguments: Mapping[str, Any]) -> str:
    return f"tool {tool} {json.dumps(arguments, sort_keys=True, separators=(',', ':'))}"


def _root(visit: Visit[Any]) -> str:
    return visit.context.root or visit.run_id


def _key(invocation: FunctionCall) -> str:
    return f"tool {invocation.key}"
