"""A conversation as it survives its worker: what is recorded is never asked or done again.

Every reply of the model is recorded as it comes, before anything is done on its account, and so is
every result of a call, unless the commit of the turn follows at once. Another worker that takes the
visit over asks the same questions in the same order, and is answered from the record as far as that
goes.

Entries of a visit, in the order they were made:
    {"reply": message, "usage": […]}             of the model, or of the extractor
    {"turn": n, "call": id, "result": value}     of a call in the n-th reply, from 1; of what comes
                                                 before the first reply the turn is 0
    {"turn": n, "call": id, "question": text}    a guarded call asked a person, and the visit parked
    {"turn": n, "call": id, "answer": text}      the person's answer
    {"noted": {…}, "usage": […]}                 of another model on the way: see `note`
    {"attempt": n, "usage": […]}                 the attempt failed; what follows is a fresh one
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.events import ToolCalled
from sleipnir.scheduler.runs.model import NO_USAGE, Usage
from sleipnir.worker.conversation.tool_set import Recorder
from sleipnir.worker.llm.client import ModelCallFailed, Reply
from sleipnir.worker.visit.context import Visit


class ConversationTooLarge(ModelCallFailed):
    """What is recorded of a conversation would be over its limit."""

    may_pass = False

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            f"the conversation is larger than {limit_bytes} bytes (conversation_limit_bytes)"
        )


class Transcript:
    """The record of one visit's conversation; calls of one turn may add to it side by side."""

    def __init__(self, visit: Visit[Any]) -> None:
        self._conversation = visit.services.conversation
        entries = self._conversation.entries()
        self._lock = Lock()
        self._position = len(entries)
        self._limit_bytes = visit.limits.conversation_bytes
        self._taken_bytes = 0  # of entries of this attempt
        self._replies: list[Reply] = []
        self._results: dict[tuple[int, str], Any] = {}
        self._notes: list[Mapping[str, Any]] = []
        self._asked: tuple[int, str, str] | None = None
        self._answers: dict[tuple[int, str], dict[str, str]] = defaultdict(dict)
        self._turn = 0
        self._unrecorded: Reply | None = None
        for entry in entries:
            self._replay(entry)

    @property
    def turn(self) -> int:
        """The number of the last reply in this attempt, from 1."""
        return self._turn

    @property
    def last_reply(self) -> str:
        """What tells the last reply from others, for whoever takes the conversation up too."""
        return encode(self._replies[self._turn - 1].message)

    @property
    def unrecorded_usage(self) -> Usage:
        """Of the last reply, if it was too large for the record."""
        return self._unrecorded.usage if self._unrecorded is not None else NO_USAGE

    def next_reply(self) -> Reply | None:
        """The reply to the next question, if it was given before."""
        if self._turn == len(self._replies):
            return None
        self._turn += 1
        return self._replies[self._turn - 1]

    def took(self, reply: Reply) -> None:
        """The model replied: nobody asks it for that again.

        One that is too large for the record may still be the last: `require_recorded` tells.
        """
        self._replies.append(reply)
        self._turn += 1
        self._unrecorded = reply
        with contextlib.suppress(ConversationTooLarge):
            entry = {"reply": reply.message, "usage": reply.usage.to_list()}
            self._append(entry, usage=reply.usage)
            self._unrecorded = None

    def require_recorded(self) -> None:
        """What comes next is done on account of the last reply.

        Raises:
            ConversationTooLarge: it was too large, as everything that is recorded may be.
        """
        if self._unrecorded is not None:
            raise ConversationTooLarge(self._limit_bytes)

    def result_of(self, call_id: str) -> tuple[bool, Any]:
        """Whether a call of the last reply has its result, and that."""
        key = (self._turn, call_id)
        return key in self._results, self._results.get(key)

    def result_before_replies(self, call_id: str) -> tuple[bool, Any]:
        """The same of something that comes before the first reply."""
        key = (0, call_id)
        return key in self._results, self._results.get(key)

    def keep_result(
        self,
        call_id: str,
        value: Any,
        event: ToolCalled | None,
        recorder: Recorder | None = None,
        usage: Usage = NO_USAGE,
    ) -> None:
        """A call of the last reply was carried out, or something before the first reply.

        Args:
            recorder: what brings its effect about, and makes this entry with it.
            usage: of what it took.

        Raises:
            EffectRefused: there was nothing to bring about; nothing is recorded.
        """
        entry = {"turn": self._turn, "call": call_id, "result": value}
        self._append(entry, event, usage, recorder)
        self._results[self._turn, call_id] = value

    @property
    def notes(self) -> Sequence[Mapping[str, Any]]:
        """What was noted, by earlier attempts too."""
        return self._notes

    def note(self, entry: Mapping[str, Any], usage: Usage) -> None:
        """Another model was asked on the way, and is not to be asked again."""
        self._append({"noted": entry, "usage": usage.to_list()}, usage=usage)
        self._notes.append(entry)

    def question(self, call_id: str, text: str) -> dict[str, Any]:
        """The entry of a question about a call of the last reply; parking records it."""
        return {"turn": self._turn, "call": call_id, "question": text}

    def answer(self, text: str) -> None:
        """A person answered the question that is open, if one is."""
        if self._asked is not None:
            turn, call_id, question = self._asked
            self._asked = None
            self._answers[turn, call_id][question] = text
            self._append({"turn": turn, "call": call_id, "answer": text})

    def answers_to(self, call_id: str) -> Mapping[str, str]:
        """The questions that a call of the last reply asked so far, with their answers."""
        return self._answers[self._turn, call_id]

    def _append(
        self,
        entry: Mapping[str, Any],
        event: ToolCalled | None = None,
        usage: Usage = NO_USAGE,
        recorder: Recorder | None = None,
    ) -> None:
        record = recorder or self._conversation.record
        with self._lock:
            taken_bytes = self._taken_bytes + _size(entry)
            if taken_bytes > self._limit_bytes:
                raise ConversationTooLarge(self._limit_bytes)
            record(self._position, entry, event, usage)
            self._taken_bytes = taken_bytes
            self._position += 1

    def _replay(self, entry: Mapping[str, Any]) -> None:
        self._taken_bytes += _size(entry)
        if "attempt" in entry:
            self._taken_bytes = 0
            self._replies.clear()
            # What comes before the conversation is no part of the attempt.
            self._results = {key: kept for key, kept in self._results.items() if key[0] == 0}
            self._answers.clear()
        elif "reply" in entry:
            self._replies.append(Reply(entry["reply"], Usage(*entry["usage"])))
        elif "result" in entry:
            self._results[entry["turn"], entry["call"]] = entry["result"]
        elif "noted" in entry:
            self._notes.append(entry["noted"])
        elif "question" in entry:
            self._asked = (entry["turn"], entry["call"], entry["question"])
        else:
            assert self._asked is not None, "an answer follows its question"
            self._answers[entry["turn"], entry["call"]][self._asked[2]] = entry["answer"]
            self._asked = None


def _size(entry: Mapping[str, Any]) -> int:
    return len(encode(entry).encode())
