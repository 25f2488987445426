"""A person's consent to the guarded calls of a reply: asked for, recorded, and found again."""

from __future__ import annotations

import json
from typing import Any

from sleipnir.records import dataclass
from sleipnir.scheduler.config.masking import mask_json
from sleipnir.scheduler.runs.consent import guard_id
from sleipnir.scheduler.runs.conversation.asking import TOO_LARGE_CALL, is_too_large
from sleipnir.scheduler.runs.model import QUESTION, GuardedCall
from sleipnir.worker.conversation.arguments import parse_arguments
from sleipnir.worker.conversation.function_kinds import call_error
from sleipnir.worker.conversation.transcript import Transcript
from sleipnir.worker.llm.client import ToolCall
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import NOT_IN_TIME, Asked


@dataclass(frozen=True, slots=True)
class Consents:
    """What people have said, or are to say, about the calls of the last reply."""

    visit: Visit[Any]
    transcript: Transcript
    within_s: float | None  # how long a question stays open; None: forever

    def take_answer(self) -> None:
        """Record a person's answer to the question that the visit has waited for."""
        guard = self.transcript.open_guard
        if guard is not None and (arrived := self.visit.arrived.get(guard)) is not None:
            self.transcript.answer(json.loads(arrived)["answer"] if arrived else NOT_IN_TIME)

    def given(self, call: ToolCall) -> tuple[str, ...]:
        """Return the questions of exactly this call that were answered with yes.

        Raises:
            CallRefused: one was answered otherwise, or not in time.
        """
        given = []
        for question, answer, guard in self.transcript.answers_to(call.call_id):
            if guard not in (self._guard_of(call, question), QUESTION):
                continue
            if answer == NOT_IN_TIME:
                raise call_error(f"{call.name}: declined, nobody answered in time: {question}")
            if answer != "yes":
                raise call_error(f"{call.name}: declined by a person: {question}")
            given.append(question)
        return tuple(given)

    def ask(self, call: ToolCall, question: str) -> Asked:
        """Return the question about a guarded call.

        Raises:
            CallRefused: no person can be asked.
        """
        if self.visit.context.headless:
            raise call_error(f"{call.name}: declined, no person is available: {question}")
        if is_too_large(question, [call.arguments]):
            reason = f"{TOO_LARGE_CALL}; split it into several calls"
            raise call_error(f"{call.name}: declined, {reason}")
        arguments = mask_json(parse_arguments(call), self.visit.mask)
        guard = self._guard_of(call, question)
        return Asked(
            "confirm",
            question,
            ("yes", "no"),
            turn=self.transcript.question(call.call_id, question, guard),
            call=guard,
            allowed_s=self.within_s,
            guarded_call=GuardedCall(call.name, arguments),
        )

    def _guard_of(self, call: ToolCall, question: str) -> str:
        return guard_id(self.transcript.key_of(call.call_id), call.name, call.arguments, question)
