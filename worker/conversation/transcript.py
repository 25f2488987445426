"""A conversation that survives its worker: what is recorded is never asked or done again.

Every reply of the model is recorded when it arrives, before any of its calls is carried out, and so
is every result of a call, unless the turn's commit follows at once. A worker that takes the visit
over asks the same questions in the same order, and is answered from the record as far as it goes.

Entries of a visit, oldest first:
    {"reply": message, "usage": […], "time": […]}
                                                 of the model, or of the extractor; with `finish`
                                                 and `tokens` if it ended before the model was done,
                                                 `native` if the request had the schema as a field;
                                                 `time` is a `CallTime`
    {"turn": n, "call": id, "result": value}     of a call in the n-th reply, from 1; turn 0 is
                                                 for what comes before the first reply; with `usage`
                                                 if a model was asked for the result
    {"turn": n, "call": id, "question": text, "guard": wait}
                                                 a guarded call asked a person, and the visit
                                                 parked; "guard" is the call id of that wait
    {"turn": n, "call": id, "answer": text}      the person's answer
    {"noted": {…}, "usage": […]}                 another model was asked meanwhile: see `note`
    {"attempt": n, "usage": […]}                 the attempt failed; a new one follows
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.events import ToolCalled
from sleipnir.scheduler.runs.model import NO_USAGE, QUESTION, Usage
from sleipnir.worker.conversation.function_kinds import Recorder
from sleipnir.worker.llm.client import ModelCallFailed, Reply
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.exchanges import CallTime


class ConversationTooLarge(ModelCallFailed):
    """The record of a conversation would exceed its limit."""

    may_pass = False

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            f"the conversation is larger than {limit_bytes} bytes (conversation_limit_bytes)"
        )


class Consent(NamedTuple):
    """A person's answer to the question of a guarded call."""

    question: str
    answer: str
    guard: str  # the call id of the wait for it


class Transcript:
    """The record of one visit's conversation; thread-safe, as calls of a turn may be concurrent."""

    def __init__(self, visit: Visit[Any]) -> None:
        self._key = f"{visit.idempotency_key}:{visit.attempt}"
        self._conversation = visit.services.conversation
        entries = self._conversation.entries()
        self._lock = Lock()
        self._position = len(entries)
        self._limit_bytes = visit.limits.conversation_bytes
        self._taken_bytes = 0  # size of this attempt's entries
        self._replies: list[Reply] = []
        self._times: list[CallTime | None] = []  # of these
        self._results: dict[tuple[int, str], Any] = {}
        self._notes: list[Mapping[str, Any]] = []
        self._asked: Mapping[str, Any] | None = None  # the entry of the open question
        self._answers: dict[tuple[int, str], list[Consent]] = defaultdict(list)
        self._turn = 0
        self._unrecorded: Reply | None = None
        for entry in entries:
            self._replay(entry)

    def key_of(self, call_id: str) -> str:
        """Return what identifies a call of the last reply in its run, the same for every try."""
        # Call ids are unique within a reply only.
        return f"{self._key}:{self._turn}:{call_id}"

    @property
    def turn(self) -> int:
        """The number of the last reply in this attempt, from 1."""
        return self._turn

    @property
    def last_reply(self) -> str:
        """The last reply as text; the same for a worker that takes the conversation over."""
        return encode(self._replies[self._turn - 1].message)

    @property
    def unrecorded_usage(self) -> Usage:
        """Usage of the last reply, if it was too large to be recorded."""
        return NO_USAGE if self._unrecorded is None else _uncounted(self._unrecorded)

    def next_reply(self) -> Reply | None:
        """Return the next recorded reply, or None if the model has to be asked."""
        if self._turn == len(self._replies):
            return None
        self._turn += 1
        return self._replies[self._turn - 1]

    @property
    def goes_on(self) -> bool:
        """Whether there is a recorded reply after the last one."""
        return self._turn < len(self._replies)

    @property
    def time_of_reply(self) -> CallTime | None:
        """When the last reply was given; None if it is not recorded."""
        return self._times[self._turn - 1]

    def took(self, reply: Reply, time: CallTime) -> None:
        """Record a reply, so that the model is not asked for it again.

        One that is too large is not recorded, but may still be the last: see `require_recorded`.
        """
        self._replies.append(reply)
        self._times.append(time)
        self._turn += 1
        self._unrecorded = reply
        with contextlib.suppress(ConversationTooLarge):
            entry: dict[str, Any] = {
                "reply": reply.message,
                "usage": reply.usage.to_list(),
                "time": [round(part, 3) for part in time],
            }
            if reply.finish is not None:
                entry |= {"finish": reply.finish, "tokens": reply.tokens}
            if reply.native:
                entry["native"] = True
            self._append(entry, usage=_uncounted(reply))
            self._unrecorded = None

    @property
    def is_recorded(self) -> bool:
        """Whether the last reply is recorded."""
        return self._unrecorded is None

    def require_recorded(self) -> None:
        """Make sure that the last reply is recorded before acting on it.

        Raises:
            ConversationTooLarge: it was too large to be recorded.
        """
        if self._unrecorded is not None:
            raise ConversationTooLarge(self._limit_bytes)

    def result_of(self, call_id: str) -> tuple[bool, Any]:
        """Return whether a call of the last reply has a recorded result, and the result.

        Before the first reply, this is for what comes before it.
        """
        key = (self._turn, call_id)
        return key in self._results, self._results.get(key)

    def keep_result(
        self,
        call_id: str,
        value: Any,
        event: ToolCalled | None,
        usage: Usage = NO_USAGE,
        recorder: Recorder | None = None,
    ) -> None:
        """Record the result of a call of the last reply, or of something before the first reply.

        Args:
            usage: of models that were asked for the result.
            recorder: adds the entry, in a transition that does more than that.
        """
        entry = {"turn": self._turn, "call": call_id, "result": value}
        if usage:
            entry["usage"] = usage.to_list()
        self._append(entry, event, usage, recorder)
        self._results[self._turn, call_id] = value

    def noted(self, name: str, value: str) -> Mapping[str, Any] | None:
        """Return the note with a field of this value, also of an earlier attempt; else None."""
        return next((note for note in list(self._notes) if note.get(name) == value), None)

    def note(self, entry: Mapping[str, Any], usage: Usage) -> None:
        """Record a call of another model, so that it counts, and what must not be asked again."""
        self._append({"noted": entry, "usage": usage.to_list()}, usage=usage)
        self._notes.append(entry)

    def question(self, call_id: str, text: str, guard: str) -> dict[str, Any]:
        """Return the entry of a question about a call of the last reply; parking records it.

        Args:
            guard: the call id of the wait for its answer.
        """
        return {"turn": self._turn, "call": call_id, "question": text, "guard": guard}

    @property
    def open_guard(self) -> str | None:
        """The call id of the wait for the open question's answer; None if none is open."""
        return None if self._asked is None else _guard_of(self._asked)

    def answer(self, text: str) -> None:
        """Record a person's answer to the open question."""
        assert self._asked is not None
        entry = {"turn": self._asked["turn"], "call": self._asked["call"], "answer": text}
        self._take_answer(entry)
        self._append(entry)

    def answers_to(self, call_id: str) -> Sequence[Consent]:
        """Return the answers to what a call of the last reply has asked, oldest first."""
        return self._answers[self._turn, call_id]

    def _take_answer(self, entry: Mapping[str, Any]) -> None:
        assert self._asked is not None, "an answer follows its question"
        answered = Consent(self._asked["question"], entry["answer"], _guard_of(self._asked))
        self._answers[entry["turn"], entry["call"]].append(answered)
        self._asked = None

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
            self._times.clear()
            # What comes before the conversation does not belong to the attempt, so keep it.
            self._results = {key: kept for key, kept in self._results.items() if key[0] == 0}
            self._answers.clear()
        elif "reply" in entry:
            finish, tokens = entry.get("finish"), entry.get("tokens", 0)
            native = entry.get("native", False)
            reply = Reply(
                entry["reply"],
                Usage(*entry["usage"]),
                finish=finish,
                replayed_tokens=tokens,
                native=native,
            )
            self._replies.append(reply)
            self._times.append(CallTime(*entry["time"]) if "time" in entry else None)
        elif "result" in entry:
            self._results[entry["turn"], entry["call"]] = entry["result"]
        elif "noted" in entry:
            self._notes.append(entry["noted"])
        elif "question" in entry:
            self._asked = entry
        elif "answer" in entry:
            self._take_answer(entry)
        else:
            self._notes.append(entry)  # by a node that searches, of an earlier version


def _uncounted(reply: Reply) -> Usage:
    """Return the usage of a reply that is to be counted with its record."""
    return NO_USAGE if reply.batch is not None else reply.usage


def _guard_of(entry: Mapping[str, Any]) -> str:
    return str(entry.get("guard", QUESTION))  # earlier versions used the same id for all


def _size(entry: Mapping[str, Any]) -> int:
    return len(encode(entry).encode())
