"""Replies from a recording instead of a model: no network, no key, no cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sleipnir.scheduler.runs.model import NO_USAGE
from sleipnir.scheduler.runs.recording import RecordedCall, model_calls
from sleipnir.scheduler.store.recordings import Recordings
from sleipnir.worker.llm.caller import Caller
from sleipnir.worker.llm.client import ModelCallFailed, ModelRequest, Reply
from sleipnir.worker.llm.recording.canonical import canonical, digest_of
from sleipnir.worker.llm.recording.difference import difference, nearest
from sleipnir.worker.llm.recording.redaction import redacted

# Recordings are large, but the runs of a batch share one.
_LOADED_AT_ONCE = 8
_ANY = "any"


class NotRecorded(ModelCallFailed):
    """The recording has no reply to a request; asking again would not help."""

    may_pass = False


class Recording:
    """Recorded calls by the requests they reply to."""

    def __init__(self, calls: Iterable[RecordedCall]) -> None:
        self._groups: dict[str, list[RecordedCall]] = defaultdict(list)
        for call in calls:
            self._groups[_group_of(call)].append(call)

    def find(
        self, forms: Sequence[dict[str, Any]], node: str
    ) -> tuple[str, Sequence[RecordedCall]] | None:
        """Return the calls that may reply to a node's request, and the name of their group.

        Args:
            forms: of the request; the first one that is recorded counts.
        """
        for group in (*map(digest_of, forms), _of_node(node), _ANY):
            if group in self._groups:
                return group, self._groups[group]
        return None

    def exactly(self, request: dict[str, Any]) -> RecordedCall | None:
        """Return the call of exactly this request, if there is one."""
        calls = self._groups.get(digest_of(request))
        return calls[0] if calls else None

    def requests(self) -> list[Any]:
        """Return all recorded requests."""
        first = (calls[0] for calls in self._groups.values())
        return [call.request for call in first if call.request is not None]


class Replay:
    """Replies to runs that were submitted with a recording."""

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings
        self._load = lru_cache(_LOADED_AT_ONCE)(self._loaded)

    def reply_to(self, request: ModelRequest, caller: Caller, digest: str) -> Reply:
        """Return the reply to a request from the recording with that digest.

        The n-th of a run's equal requests gets the n-th reply to it; after that, the last one. A
        schema may have been a field of the request or in its prompt: both are looked up.

        Raises:
            NotRecorded: there is none.
            ModelCallFailed: as recorded.
        """
        forms = [request] if request.schema is None else [request.native(), request]
        asked = [redacted(canonical(form), caller.secrets) for form in forms]
        try:
            call = self._find(asked, caller, digest)
        except NotRecorded as miss:
            self._recordings.miss(caller.root, caller.key, f"node '{caller.node}': {miss}")
            raise
        if call.reply is None:
            raise ModelCallFailed(call.error)
        return Reply(
            call.reply,
            NO_USAGE,
            "replayed",
            call.finish,
            call.usage.completion_tokens,
            native=call.request is not None and "response_format" in call.request,
        )

    def exactly(
        self, asked: dict[str, Any], caller: Caller, digest: str, what: str
    ) -> Mapping[str, Any]:
        """Return the reply to exactly this request from the recording with that digest.

        Args:
            what: names the request in messages.

        Raises:
            NotRecorded: there is none.
        """
        try:
            call = self._load(digest).exactly(asked)
            if call is None:
                raise NotRecorded(f"the recording has no {what}")
        except NotRecorded as miss:
            self._recordings.miss(caller.root, caller.key, f"node '{caller.node}': {miss}")
            raise
        return call.reply or {}

    def _find(self, forms: Sequence[dict[str, Any]], caller: Caller, digest: str) -> RecordedCall:
        recording = self._load(digest)
        found = recording.find(forms, caller.node)
        if found is None:
            raise NotRecorded(_not_there(forms, recording))
        group, calls = found
        if len(calls) == 1 and group != _ANY:
            return calls[0]
        turn = self._recordings.turn(caller.root, caller.key, group)
        if turn > len(calls) and group == _ANY:
            raise NotRecorded(f"there are {len(calls)} replies, and this is model call {turn}")
        return calls[min(turn, len(calls)) - 1]

    def _loaded(self, digest: str) -> Recording:
        calls = self._recordings.get(digest)
        if calls is None:
            raise NotRecorded("the recording has expired; submit the run again")
        return Recording(model_calls(calls))


def _group_of(call: RecordedCall) -> str:
    if call.request is not None:
        return digest_of(call.request)
    return _ANY if call.node is None else _of_node(call.node)


def _of_node(node: str) -> str:
    return f"node {node}"


def _not_there(forms: Sequence[dict[str, Any]], recording: Recording) -> str:
    close = nearest(forms, recording.requests())
    if close is None:
        return "no reply matches this request or a similar one"
    differs = difference(*close)
    return f"this request is not in the recording; the nearest one differs:\n{differs}"
