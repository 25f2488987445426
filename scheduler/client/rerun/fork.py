"""Forks: new runs that continue where another one was after some step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.document.queues import queues_of
from sleipnir.graphs.schema import Graph
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
from sleipnir.scheduler.runs.history import Moment, moment_after, used_by_steps
from sleipnir.scheduler.runs.ids import new_run_id
from sleipnir.scheduler.runs.model import Checkpoint, Inherited, NewFork, NewRun, Run
from sleipnir.scheduler.runs.submit import Request, require_fitting, seed_text

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


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a fork begins."""

    run: Run
    checkpoints: Sequence[Checkpoint]  # up to there
    moment: Moment

    def inherited(self) -> Inherited | None:
        """Return what was used up to there; None if that is not known.

        Of the steps that the run has itself taken over, only the sum is known.
        """
        run, own = self.run, used_by_steps(self.checkpoints)
        if run.forked_from is None:
            return own
        if run.inherited is None or self.moment.step < run.forked_from[1]:
            return None
        return run.inherited + own


def prepare_fork(client: ClientCore, run: Run, request: ForkRequest) -> tuple[NewFork, RunForked]:
    """Return a fork with a new id, and the first event of its narration.

    Raises:
        SubmissionRefused: the step was not committed or has no next one, or the changes are
            invalid.
        AgentNotFound, InvalidAgent, BundleError: the agent cannot run as it is now.
    """
    place = _place(client, run, request.step)
    moment = place.moment
    chosen = choose_agent(client, run, request.agent)
    changes = request.changes
    require_changeable(run, changes, moment.step)
    # Its inbox is empty.
    unread = {MESSAGES_READ: "0"} if MESSAGES_READ in moment.state and run.context.converses else {}
    new = _new_run(run, chosen, request)
    fork = _fork(client, place, new, chosen.graph, unread | changes)
    return fork, _forked(place, new, chosen.graph, changes)


def prepare_continuation(
    client: ClientCore, agent: PreparedAgent, request: Request, run: Run, step: int
) -> tuple[NewFork, RunForked]:
    """Return the run for a request, but as a fork of a run that was given the same.

    Args:
        step: the step of that run after which it begins.

    Raises:
        SubmissionRefused: that run was given something else, or a node of its next step is missing;
            the step was not committed, has no next one, or is no longer stored; or the request is
            one that no run is made of.
    """
    new = client.new_run(agent, request)
    place = _place(client, run, step)
    given = {key: encode(value) for key, value in place.checkpoints[0].writes.items()}
    if given != new.state or run.context.variables != new.context.variables:
        raise SubmissionRefused(f"run {run.run_id} was given something else")
    return _fork(client, place, new, agent.graph, {}), _forked(place, new, agent.graph, {})


def _place(client: ClientCore, run: Run, step: int | None) -> _Place:
    """Return where a fork begins that continues after a step."""
    history = client.queries.checkpoints(run.run_id)
    checkpoints = list(history if step is None else islice(history, step + 1))
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
    return _Place(run, checkpoints[: step + 1], moment)


def _new_run(run: Run, chosen: ChosenAgent, request: ForkRequest) -> NewRun:
    """Return a new run of the same kind, from its start."""
    run_id = new_run_id()
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
    graph = chosen.graph
    return NewRun(
        run_id=run_id,
        agent=run.agent,
        digest=chosen.digest,
        start=graph.start,
        start_type=graph.nodes[graph.start].type,
        state={},
        context=context,
        timeout_s=graph.settings.limit_s,
        queues=queues_of(graph, context.queue),
        labels=run.labels,
    )


def _fork(
    client: ClientCore, place: _Place, new: NewRun, graph: Graph, changes: Mapping[str, str]
) -> NewFork:
    """Return a new run that begins in the middle of another one, with changes to the state."""
    run, moment, checkpoints = place.run, place.moment, place.checkpoints
    require_place(graph, new.agent, {node: moment.visits[node] for node in moment.frontier})
    state = {key: encode(value) for key, value in moment.state.items()} | dict(changes)
    settings = client.store.settings
    require_fitting(state, settings.value_limit_bytes, settings.state_limit_bytes)
    start = moment.frontier[0]
    return NewFork(
        run=replace(
            new,
            start=start,
            start_type=graph.nodes[start].type,
            state=state,
            forked_from=(run.run_id, moment.step),
            inherited=place.inherited(),
        ),
        step=moment.step + 1,
        frontier=moment.frontier,
        visits=moment.visits,
        history=tuple(_retold(checkpoints, changes)),
        window=graph.settings.max_concurrency,
        failures=_tolerated_failures(client.queries.failures(run), checkpoints),
    )


def _forked(place: _Place, new: NewRun, graph: Graph, changes: Mapping[str, str]) -> RunForked:
    """Return the first event of a fork's narration."""
    types = tuple((node, graph.nodes[node].type) for node in place.moment.frontier)
    before = place.run.digest
    digests = None if before == new.digest else (before, new.digest)
    run_id, step = place.run.run_id, place.moment.step
    return RunForked(new.agent, run_id, step, types, tuple(sorted(changes)), digests)


def _retold(checkpoints: Sequence[Checkpoint], changes: Mapping[str, str]) -> Iterator[str]:
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
