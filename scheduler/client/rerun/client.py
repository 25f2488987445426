"""The part of the Python client for forks, retries and comparisons of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.run_store import RunStore

with lazy_imports():
    from sleipnir.scheduler.client.rerun import difference as differences
    from sleipnir.scheduler.client.rerun import fork as forks
    from sleipnir.scheduler.client.rerun import many
    from sleipnir.scheduler.client.rerun import retry as retries

if TYPE_CHECKING:
    from sleipnir.graphs.schema import Graph
    from sleipnir.scheduler.client.limits.budget_check import BudgetCheck
    from sleipnir.scheduler.client.preparation import PreparedAgent
    from sleipnir.scheduler.client.rerun.difference import Difference
    from sleipnir.scheduler.client.rerun.many import Retried, RunSelection
    from sleipnir.scheduler.client.rerun.retry import RetryRequest
    from sleipnir.scheduler.runs.model import NewRun
    from sleipnir.scheduler.runs.submit import Request
    from sleipnir.scheduler.store.queries.filters import RunFilter


class ClientCore(Protocol):
    """What this part needs of the rest of a client."""

    store: RunStore
    queries: RunQueries

    @property
    def budget_check(self) -> BudgetCheck: ...

    def prepare(self, reference: str) -> PreparedAgent: ...

    def new_run(self, agent: PreparedAgent, request: Request) -> NewRun: ...

    def graph_of(self, run: Run) -> Graph: ...

    def move(self, run_id: str, machine: str | None) -> None: ...

    def keep(self, run_ids: Sequence[str]) -> None: ...


class Reruns:
    """Forks, retries and compares runs."""

    def fork(
        self: ClientCore,
        run_id: str,
        step: int | None = None,
        *,
        state: Mapping[str, Any] | None = None,
        prompt: str | None = None,
        agent: str | PreparedAgent = "same",
        streamed: bool = False,
    ) -> Run:
        """Start a new run that continues where a run, which may still be going, was after a step.

        Args:
            step: 0 is before the first node; None: the last one that has a next step.
            state: other values for some of its keys.
            agent: `same` as the run began with, `current` as it is now, or a path.
            streamed: stream replies of models as they are generated.

        Raises:
            RunNotFound: there is none of that id.
            SubmissionRefused: the step or the changes are invalid; nothing was stored.
            AgentNotFound, InvalidAgent, BundleError: the agent cannot run as it is now.
            NotKept: it was stored, but may get lost.
        """
        request = forks.ForkRequest(step, state or {}, prompt, agent, streamed)
        fork, event = forks.prepare_fork(self, self.queries.run(run_id), request)
        self.budget_check.require_budget(None)
        self.store.runs.fork(fork, event)
        self.keep([fork.run.run_id])
        return self.queries.run(fork.run.run_id)

    def retry(
        self: ClientCore,
        run_id: str,
        from_step: int | None = None,
        *,
        state: Mapping[str, Any] | None = None,
        agent: str | PreparedAgent = "same",
        timeout_s: float | None = None,
        shallow: bool = False,
        budget_usd: float | None = None,
        streamed: bool | None = None,
        machine: str | None = None,
        keep: bool = True,
    ) -> Run:
        """Continue an ended run in place; what it had finished is not repeated.

        Args:
            from_step: the step to repeat from; None: continue in the step that was not completed.
            state: other values for some of its keys.
            agent: `same` as it began with, `current` as it is now, a path, or prepared.
            timeout_s: a new time limit.
            shallow: start new child runs in place of those that did not succeed.
            budget_usd: budget for all tries of the run with its children; None: unchanged.
            streamed: stream replies of models; None: unchanged.
            machine: whose workers take it, with its child runs; `any`: of every one; None:
                unchanged.
            keep: wait until it is on disk, as `submit` does.

        Raises:
            RunNotFound: there is none of that id, or too little of it is left.
            ActionRefused: its status does not allow it.
            SubmissionRefused, AgentNotFound, InvalidAgent, BundleError: as `fork`.
            NotKept: it continues, but that may get lost.
        """
        request = retries.RetryRequest(
            from_step, state or {}, agent, timeout_s, shallow, budget_usd, streamed, machine
        )
        retries.retry_run(self, self.queries.run(run_id), request)
        if keep:
            self.keep([run_id])
        return self.queries.run(run_id)

    def retriable(self: ClientCore, wanted: RunFilter) -> RunSelection:
        """Return the matching ended runs, newest first, and why they ended.

        Without a status: failed, cancelled and timed-out runs. At most 10,000.
        """
        return many.select(self.queries, wanted)

    def retry_many(
        self: ClientCore, run_ids: Sequence[str], request: RetryRequest | None = None
    ) -> Iterator[Retried]:
        """Retry runs one after the other, as `retry` does, at a bounded rate.

        A refused retry is reported with the reason and does not stop the others. Runs not reached
        when the iteration stops are not retried; selecting again finds them.

        Raises:
            EngineUnreachable: Redis cannot be reached.
        """
        return many.retry_many(self, run_ids, request or retries.RetryRequest())

    def diff(self: ClientCore, a: str, b: str, step: int | None = None) -> Difference:
        """Return how a run differs from another one, now or after a step.

        Raises:
            RunNotFound: there is none of that id.
            SubmissionRefused: one of them has not reached that step.
        """
        sides = (differences.side_of(self.queries, run_id, step) for run_id in (a, b))
        return differences.compare(*sides)
