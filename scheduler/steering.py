"""The part of the Python client that answers and cancels runs."""

from __future__ import annotations

from typing import Protocol

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.following import HasStore
from sleipnir.scheduler.runs.model import Failure, Question

# Most clients only read runs.
with lazy_imports():
    from sleipnir.scheduler.runs import answers, events


class CanSteer(HasStore, Protocol):
    """What this part needs of the rest of a client."""

    def open_question(self, run_id: str, node: str | None = None) -> Question: ...

    def answer_question(
        self, question: Question, text: str, *, by: str | None = None, via: str | None = None
    ) -> None: ...


class Steering:
    """Acts on open runs."""

    def answer(
        self: CanSteer,
        run_id: str,
        text: str,
        node: str | None = None,
        *,
        by: str | None = None,
        via: str | None = None,
    ) -> Question:
        """Answer the open question of a run or its children, that of `node` if there are several.

        Args:
            by: who answers; `via`: through what (cli, page, api), for the run's narration.

        Raises:
            AnswerRefused: there is no such open question, it was answered meanwhile, or the text is
                invalid (AnswerInvalid), which leaves it open.
        """
        question = self.open_question(run_id, node)
        self.answer_question(question, text, by=by, via=via)
        return question

    def answer_question(
        self: HasStore,
        question: Question,
        text: str,
        *,
        by: str | None = None,
        via: str | None = None,
    ) -> None:
        """Answer exactly this question; raises as `answer`."""
        text = answers.accepted(question, text, self.store.settings.value_limit_bytes)
        event = events.QuestionAnswered(question.node, by, via)
        visit, call = question.visit, question.call
        self.store.parking.answer(question.run_id, visit, text, call=call, event=event)

    def cancel(self: HasStore, run_id: str, reason: str = "cancelled by its user") -> bool:
        """Cancel a run with its children; return False if it had ended.

        Raises:
            RunNotFound: there is none of that id.
        """
        self.queries.run(run_id)
        return self.store.runs.close(run_id, "cancelled", Failure("cancelled", reason, None))
