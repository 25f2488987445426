"""Runs rows as forks of the baseline's runs, so that only what has changed is paid for."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from sleipnir.graphs.errors import GraphError
from sleipnir.scheduler.batch.options import submit
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.client.rerun.changes import Changes, changes_between, form_of, step_before
from sleipnir.scheduler.client.rerun.fork import prepare_continuation
from sleipnir.scheduler.errors import RunNotFound, SubmissionRefused
from sleipnir.scheduler.runs.model import Run, Status
from sleipnir.scheduler.runs.submit import Request


class BaselineForks:
    """Starts rows where they first differ from the baseline's runs.

    Args:
        run_ids: the baseline's run of each row, by the row's id.
    """

    def __init__(self, run_ids: Mapping[str, str]) -> None:
        self._run_ids = run_ids
        self._changes: dict[Hashable, Changes | None] = {}  # by both versions

    def submit(self, client: Client, agent: PreparedAgent, request: Request) -> None:
        """Accept the run of a row: a fork, if there is something to take over, else a new one."""
        try:
            is_forked = self._fork(client, agent, request)
        except (RunNotFound, SubmissionRefused):  # too little is left, or it was given other values
            is_forked = False
        if not is_forked:
            submit(client, agent, request)

    def _fork(self, client: Client, agent: PreparedAgent, request: Request) -> bool:
        run_id = self._run_ids.get(request.item or "")
        if run_id is None:
            return False
        run = client.queries.run(run_id)
        step = self._last_unchanged(client, agent, run)
        if not step:
            return False
        # What a fork has taken over is known of the run that it was taken from.
        while run.forked_from is not None and step < run.forked_from[1]:
            run = client.queries.run(run.forked_from[0])
        fork, event = prepare_continuation(client, agent, request, run, step)
        client.budget_check.require_budget(request.batch)
        client.store.runs.fork(fork, event)
        return True

    def _last_unchanged(self, client: Client, agent: PreparedAgent, run: Run) -> int | None:
        """Return the last step of a run that the row's run would only repeat; None: nothing is."""
        changes = self._changes_since(client, agent, run)
        if changes is None or changes.elsewhere or run.context.converses or not run.is_final:
            return None
        history = client.queries.history(run.run_id)
        succeeded = run.status == Status.SUCCEEDED
        step = step_before(changes, history, () if succeeded else run.frontier)
        if step is None and succeeded:  # it saw nothing of the changes: only its end is repeated
            step = max((found.step for found in history if found.frontier), default=None)
        return step

    def _changes_since(self, client: Client, agent: PreparedAgent, run: Run) -> Changes | None:
        """Return how the agent differs from that of a run; None if that is no longer known."""
        versions = (run.digest, run.context.agents), (agent.digest, agent.agents)
        key = tuple((digest, frozenset(agents.items())) for digest, agents in versions)
        if key not in self._changes:
            try:
                before, after = (form_of(client.store.bundles, *version) for version in versions)
                self._changes[key] = changes_between(before, after)
            except GraphError:  # no longer stored, or packed by another version of the engine
                self._changes[key] = None
        return self._changes[key]
