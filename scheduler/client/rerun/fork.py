"""Forks: new runs that continue where another one was after some step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.document.queues import queues_of
from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.client.rerun.agents import (
    SAME,
    ChosenAgent,
    choose_agent,
    require_changeable,
    require_place,
)
from sleipnir.scheduler.client.rerun.retelling import retold
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.conversation.memory import MESSAGES_READ
from sleipnir.scheduler.runs.events import RunForked
from sleipnir.scheduler.runs.failures import NodeFailure, StepFailures
from sleipnir.scheduler.runs.history import Moment, moment_after
from sleipnir.scheduler.runs.ids import new_run_id
from sleipnir.scheduler.runs.model import Checkpoint, NewFork, NewRun, Run
from sleipnir.scheduler.runs.submit import require_fitting, seed_text

if TYPE_CHECKING:
    from sleipnir.scheduler.client.rerun.client import ClientCore


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """What a fork changes."""

    step: int | None = None  # None: the last one that has a next step
    state: Mapping[str, Any] = field(default_factory=dict)  # overrides the run's state
    prompt: str | None = None
    agent: str | PreparedAgent = SAME
    streamed: bool = False  # stream replies of models

    @property
    def changes(self) -> dict[str, str]:
        """The changed keys of the state, as JSON texts."""
        given = dict(self.state)
        if self.prompt is not None:
            given["initial_prompt"] = self.prompt
        return {key: seed_text(key, value) for key, value in given.items()}


def prepare_fork(client: ClientCore, run: Run, request: ForkRequest) -> tuple[NewFork, RunForked]:
    """Return a fork with a new id, and the first event of its narration.

    Raises:
        SubmissionRefused: the step was not committed or has no next one, or the changes are
            invalid.
        AgentNotFound, InvalidAgent, BundleError: the agent cannot run as it is now.
    """
    checkpoints = _up_to(client.queries.checkpoints(run.run_id), request.step)
    moment = _moment(run, checkpoints, request.step)
    chosen = choose_agent(client, run, request.agent)
    require_place(chosen.graph, run.agent, {node: moment.visits[node] for node in moment.frontier})
    changes = request.changes
    require_changeable(run, changes, moment.step)
    # Its inbox is empty.
    unread = {MESSAGES_READ: "0"} if MESSAGES_READ in moment.state and run.context.converses else {}
    state = {key: encode(value) for key, value in moment.state.items()} | unread | changes
    settings = client.store.settings
    require_fitting(state, settings.value_limit_bytes, settings.state_limit_bytes)
    checkpoints = checkpoints[: moment.step + 1]
    fork = replace(
        _fork(run, chosen, moment, state, request),
        history=tuple(_retold(checkpoints, unread | changes)),
        failures=_tolerated_failures(client.queries.failures(run), checkpoints),
    )
    types = tuple((node, chosen.graph.nodes[node].type) for node in moment.frontier)
    event = RunForked(
        run.agent, run.run_id, moment.step, types, tuple(sorted(changes)), chosen.digests
    )
    return fork, event


def _up_to(history: Iterable[Checkpoint], step: int | None) -> list[Checkpoint]:
    return list(history if step is None else islice(history, step + 1))


def _moment(run: Run, checkpoints: list[Checkpoint], step: int | None) -> Moment:
    """Return the state and position where the fork begins."""
    if step is None:
        # The last step of an ended run has no next one.
        step = max((found.step for found in checkpoints if found.frontier), default=0)
    try:
        moment = moment_after(checkpoints, step)
    except IndexError as error:
        raise SubmissionRefused(f"run {run.run_id}: {error}") from error
    if not moment.frontier:
        raise SubmissionRefused(
            f"run {run.run_id} ended with step {step}: fork it after step {step - 1} or before"
        )
    return moment


def _fork(
    run: Run, chosen: ChosenAgent, moment: Moment, state: Mapping[str, str], request: ForkRequest
) -> NewFork:
    run_id = new_run_id()
    limit_s = chosen.graph.settings.limit_s
    context = replace(
        chosen.context,
        root=run_id,
        seeds=tuple(dict.fromkeys((*chosen.context.seeds, *request.state))),
        depth=0,
        member="",
        batch=None,
        files_of=run.context.batch or run.context.files_of,
        recorded=False,
        budget_usd=None,
        streamed=request.streamed,
        session=None,
        trace="",
        tracestate="",
    )
    start = moment.frontier[0]
    new = NewRun(
        run_id=run_id,
        agent=run.agent,
        digest=chosen.digest,
        start=start,
        start_type=chosen.graph.nodes[start].type,
        state=state,
        context=context,
        timeout_s=limit_s,
        queues=queues_of(chosen.graph, context.queue),
        labels=run.labels,
        forked_from=(run.run_id, moment.step),
    )
    return NewFork(
        run=new,
        step=moment.step + 1,
        frontier=moment.frontier,
        visits=moment.visits,
        history=(),
        window=chosen.graph.settings.max_concurrency,
    )


def _retold(checkpoints: list[Checkpoint], changes: Mapping[str, str]) -> Iterator[str]:
    """Yield the history of a fork without times and usage; the last checkpoint with `changes`."""
    for checkpoint in checkpoints:
        nodes = {node: _outcome(timing) or None for node, timing in checkpoint.nodes.items()}
        yield retold(checkpoint, changes if checkpoint is checkpoints[-1] else {}, nodes=nodes)


def _outcome(timing: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a node failed, and where its conditions led; empty if neither is the case."""
    names = ("failure", "failed", "handled", "route")
    return {name: timing[name] for name in names if name in timing}


def _tolerated_failures(
    kept: Iterable[NodeFailure], checkpoints: Sequence[Checkpoint]
) -> StepFailures:
    """Return a run's failures in these steps that did not end it; its fork has them, too."""
    timings = [timing for found in checkpoints for timing in found.nodes.values()]
    return StepFailures(
        tuple(failure for failure in kept if failure.step <= checkpoints[-1].step),
        failed=sum(timing.get("failed", 0) for timing in timings),
        handled=sum(1 for timing in timings if timing.get("handled")),
    )
