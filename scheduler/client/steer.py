"""The part of the Python client that answers and cancels runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.client.follow import HasStore
from sleipnir.scheduler.errors import ActionRefused, RunGone, RunNotFound
from sleipnir.scheduler.runs.model import Failure, Question
from sleipnir.scheduler.store.machines import Machines

# Most clients only read runs.
with lazy_imports():
    from sleipnir.scheduler.runs import answers, events

if TYPE_CHECKING:
    from sleipnir.scheduler.store.connection import RedisClient


# In place of a machine's name in commands and requests.
ANY_MACHINE = "any"


class CanSteer(HasStore, Protocol):
    """What this part needs of the rest of a client."""

    def open_question(
        self, run_id: str, node: str | None = None, *, question_id: str | None = None
    ) -> Question: ...

    def answer_question(
        self, question: Question, text: str, *, by: str | None = None, via: str | None = None
    ) -> str: ...


class Steering:
    """Acts on open runs."""

    def answer(
        self: CanSteer,
        run_id: str,
        text: str,
        node: str | None = None,
        *,
        question_id: str | None = None,
        by: str | None = None,
        via: str | None = None,
    ) -> Question:
        """Answer the open question of a run or its children, that of `node` if there are several.

        Args:
            question_id: the question to answer and no other; required to consent to a guarded call.
            by: who answers; `via`: through what (cli, page, api, mcp), for the run's narration.

        Raises:
            AnswerRefused: there is no such open question, it was answered meanwhile, it asks for
                consent and `question_id` is missing, or the text is invalid (AnswerInvalid), which
                leaves it open.
        """
        question = self.open_question(run_id, node, question_id=question_id)
        answers.require_named(question, question_id)
        self.answer_question(question, text, by=by, via=via)
        return question

    def answer_question(
        self: HasStore,
        question: Question,
        text: str,
        *,
        by: str | None = None,
        via: str | None = None,
    ) -> str:
        """Answer exactly this question; return the text that its run gets. Raises as `answer`."""
        text = answers.accepted(question, text, self.store.settings.value_limit_bytes)
        event = events.QuestionAnswered(question.node, by, via)
        visit, call = question.visit, question.call
        self.store.parking.answer(question.run_id, visit, text, call=call, event=event)
        return text

    def move(self: HasStore, run_id: str, machine: str | None) -> None:
        """Pin a run, open or ended, and its child runs to another machine; None: to none.

        Nodes that a worker has begun end where they are.

        Raises:
            RunNotFound: there is none of that id.
            ActionRefused: no worker is running on that machine; nothing was moved.
        """
        if machine is not None:
            require_worker(self.store.client, machine)
        runs = [self.queries.run(run_id)]
        for run in runs:
            runs += self.queries.children(run.run_id)
        try:
            for run in runs:
                self.store.runs.move(run.run_id, machine)
        except RunGone as error:
            raise RunNotFound(run_id) from error

    def cancel(self: HasStore, run_id: str, reason: str = "cancelled by its user") -> bool:
        """Cancel a run with its children; return False if it had ended.

        Raises:
            RunNotFound: there is none of that id.
        """
        self.queries.run(run_id)
        return self.store.runs.close(run_id, "cancelled", Failure("cancelled", reason, None))


def require_worker(client: RedisClient, machine: str) -> None:
    """Check that a machine has a worker.

    Raises:
        ActionRefused: it has none.
    """
    if not Machines(client).have_worker(machine):
        known = sorted({worker.machine for worker in Machines(client).workers()})
        raise ActionRefused(
            f"no worker is running on machine {machine!r}; workers are on: "
            f"{', '.join(known) or 'no machine'}"
        )
