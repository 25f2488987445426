"""The Python client: submit agents, watch and answer their runs, cancel them.

The command line is built on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from sleipnir.graphs.errors import BundleError
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.embedded.acceptances import Acceptances
from sleipnir.scheduler.errors import AnswerRefused, NotKept
from sleipnir.scheduler.runs.events import NarrationEntry, QuestionAnswered, RunEnded
from sleipnir.scheduler.runs.model import Failure, NewRun, Question, Run, RunRow
from sleipnir.scheduler.second_chances.client import SecondChances
from sleipnir.scheduler.store.connection import connect, is_private, require_fit
from sleipnir.scheduler.store.dispatch import make_dispatcher
from sleipnir.scheduler.store.limit_queries import LimitQueries
from sleipnir.scheduler.store.machines import Machines
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.recordings import Recordings
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.scheduler.temporary import OwnDirectory

# Most clients only look at runs: what reads, checks and packs agents comes when it is needed.
with lazy_imports():
    from sleipnir.graphs.bundles import archive, packed
    from sleipnir.graphs.document import finding as findings
    from sleipnir.scheduler import preparation
    from sleipnir.scheduler.limits import budget_check
    from sleipnir.scheduler.limits import report as limit_report
    from sleipnir.scheduler.runs import answers
    from sleipnir.scheduler.runs import submit as submission

if TYPE_CHECKING:
    from sleipnir.graphs.document.references import AgentSearch
    from sleipnir.graphs.schema import Graph
    from sleipnir.scheduler.limits.budget_check import BudgetCheck
    from sleipnir.scheduler.preparation import PreparedAgent
    from sleipnir.scheduler.runs.submit import Request


class Client(SecondChances):
    """Runs, as their users handle them."""

    def __init__(
        self, store: RunStore, search: AgentSearch, acceptances: Acceptances | None = None
    ) -> None:
        self.store = store
        # Of the embedded engine; what another Redis keeps is between it and its operator.
        self.acceptances = acceptances
        self.queries = RunQueries(store.client, store.clock)
        self.search = search
        self.recordings = Recordings(store.client, store.settings.retention_s)

    @classmethod
    def connect(
        cls, settings: Settings, search: AgentSearch, acceptances: Acceptances | None = None
    ) -> Client:
        """A client of the Redis that the settings name.

        Raises:
            EngineUnreachable: nothing usable answers there.
        """
        assert settings.redis_url is not None
        redis = connect(settings.redis_url)
        require_fit(redis, allow_unsafe=settings.allow_unsafe_redis)
        dispatcher = make_dispatcher(settings.redis_url, settings.broker_url)
        return cls(RunStore(redis, settings, dispatcher), search, acceptances)

    @cached_property
    def budget_check(self) -> BudgetCheck:
        """Whether something is left to spend."""
        return budget_check.BudgetCheck(self.store)

    # ---- submit

    def prepare(self, reference: str) -> PreparedAgent:
        """Find, validate and pack an agent, and store its bundles.

        Raises:
            AgentNotFound, InvalidAgent, BundleError: it cannot run as it is.
            SubmissionRefused: it is of a kind this version cannot run.
        """
        settings, put = self.store.settings, self.store.bundles.put
        return preparation.Preparation(settings, self.search, put).prepare(reference)

    def machine_with_files(self) -> str | None:
        """The name of this machine, if only runs that are pinned to it would find its files.

        None where all workers run on it, and where none does.
        """
        settings = self.store.settings
        if settings.redis_url is None or is_private(settings.redis_url):
            return None
        machine = settings.machine_name
        return machine if Machines(self.store.client).have_worker(machine) else None

    def deserted_machines(self, runs: Iterable[Run | RunRow]) -> set[str]:
        """Machines that some of the runs are pinned to, and that have no worker now."""
        pinned = (run.machine for run in runs if not run.is_final)
        return Machines(self.store.client).without_worker(pinned)

    def submit(self, agent: PreparedAgent, request: Request, *, keep: bool = True) -> str:
        """Accept a run and return its id; from here on it is never lost.

        Args:
            keep: wait until it is on disk, on the embedded engine; else call `keep` afterwards.

        Raises:
            SubmissionRefused: nothing was stored.
            NotKept: it was stored, and may be lost.
        """
        run = self._new_run(agent, request)
        self.budget_check.require_budget(request.batch)
        self.store.runs.submit(run)
        if keep:
            self.keep([run.run_id])
        return run.run_id

    def keep(self, run_ids: Sequence[str]) -> None:
        """Return once these runs are on disk, if that is ours to see to.

        Raises:
            NotKept: they are in the memory of Redis, and cannot be put on disk.
        """
        if self.acceptances is None or not run_ids:
            return
        try:
            now_ms = self.acceptances.keep(run_ids, self.queries.now_ms)
        except NotKept as error:
            runs = f"run {run_ids[0]}" if len(run_ids) == 1 else f"{len(run_ids)} runs"
            raise NotKept(
                f"{runs} may be lost: {error}; free some space, then check with `sleipnir ps`"
            ) from error
        self.acceptances.tidy(self.queries.left_ms, now_ms)

    def check(self, agent: PreparedAgent, request: Request) -> None:
        """Find out whether `submit` would accept this, without asking Redis.

        Raises:
            SubmissionRefused: it would not.
        """
        self._new_run(agent, request)

    def _new_run(self, agent: PreparedAgent, request: Request) -> NewRun:
        warnings = tuple(
            f"{finding.code}{f' [{finding.node}]' if finding.node else ''} {finding.message}"
            for finding in findings.folded(agent.warnings)
        )
        run = submission.new_run(
            agent.graph,
            agent.digest,
            replace(request, guarded=request.guarded or not self.store.settings.auto_confirm),
            agent=agent.name,
            agents=agent.agents,
            unavailable=agent.unavailable,
            warnings=warnings,
        )
        settings = self.store.settings
        submission.require_fitting(
            run.state, settings.value_limit_bytes, settings.state_limit_bytes
        )
        return run

    # ---- follow

    def watch(self, run_id: str, after: str = "0") -> Iterator[NarrationEntry]:
        """The narration to the run's end, waiting for what is still to come."""
        for entry in self.queries.follow(run_id, after):
            yield entry
            if isinstance(entry.event, RunEnded) and entry.event.ends(self.queries.run(run_id)):
                return

    def wait(self, run_id: str) -> Run:
        """Wait until the run is over."""
        for _ in self.watch(run_id):
            pass
        return self.queries.run(run_id)

    def waits_for(self, runs: Sequence[Run | RunRow]) -> dict[str, str]:
        """What those of the runs wait for that a person has to see to, by run id."""
        open_runs = [run for run in runs if not run.is_final]
        deserted = self.deserted_machines(open_runs)
        without_worker = {
            run.run_id: f"no worker on {run.machine}"
            for run in open_runs
            if run.machine in deserted
        }
        if not open_runs:
            return {}
        limits = LimitQueries(self.store.client, self.store.clock)
        return without_worker | limit_report.held_up(limits, [run.run_id for run in open_runs])

    def graph_of(self, run: Run) -> Graph:
        """The graph that a run executes, as it was submitted.

        Raises:
            BundleError: it is not kept any more.
        """
        data = self.store.bundles.get(run.digest)
        if data is None:
            raise BundleError(f"the files of agent '{run.agent}' are no longer stored")
        with OwnDirectory() as scratch:
            archive.unpack(data, run.digest, scratch.path / "bundle")
            graph, _ = packed.packed_agent(scratch.path / "bundle")
        assert graph is not None, "only graphs are run"
        return graph

    # ---- steer

    def answer(self, run_id: str, text: str, node: str | None = None) -> Question:
        """Answer the open question of a run or its children, that of `node` if it has several.

        Raises:
            AnswerRefused: none is open there, somebody was faster, or the text is too large or not
                what the question asks for; then it stays open.
        """
        question = self.open_question(run_id, node)
        text = answers.accepted(question, text, self.store.settings.value_limit_bytes)
        event = QuestionAnswered(question.node)
        self.store.parking.answer(question.run_id, question.visit, text, event=event)
        return question

    def open_question(self, run_id: str, node: str | None = None) -> Question:
        """The open question of a run, or of its child runs if it has none itself.

        Raises:
            AnswerRefused: there is none, or `node` does not say which of several.
        """
        questions = self.open_questions(run_id)
        matching = [
            question for question in questions if node is None or question.is_asked_by(node)
        ]
        if len(matching) == 1:
            return matching[0]
        if len(matching) > 1:
            raise AnswerRefused(_which_question(run_id, matching))
        run = self.queries.run(run_id)
        if run.is_final:
            raise AnswerRefused(f"run {run_id} is over ({run.status}); it accepts no answers")
        if node is not None and run.visits.get(node, 0) > 0:
            raise AnswerRefused(f"the question of node '{node}' was already answered")
        where = f" at node '{node}'" if node is not None else ""
        raise AnswerRefused(f"run {run_id} has no open question{where}")

    def open_questions(self, run_id: str) -> list[Question]:
        """The open questions of a run, or else those of its child runs at any depth."""
        return self.queries.questions(run_id) or self.queries.questions_of_tree(run_id)

    def cancel(self, run_id: str, reason: str = "cancelled by its user") -> bool:
        """Cancel a run with its children; False if it was over already.

        Raises:
            RunNotFound: there is none of that id.
        """
        self.queries.run(run_id)
        return self.store.runs.close(run_id, "cancelled", Failure("cancelled", reason, None))


def _which_question(run_id: str, questions: Sequence[Question]) -> str:
    if len({question.run_id for question in questions}) == 1:
        places = ", ".join(question.place for question in questions)
        return f"run {run_id} asks several questions ({places}); name one with --node"
    asking = ", ".join(f"{question.place} of run {question.run_id}" for question in questions)
    return f"several child runs of {run_id} ask ({asking}); answer one of them"
