"""Retries: ended runs that continue in place, where they stopped or from an earlier step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.document.queues import queues_of
from sleipnir.graphs.schema import MAX_SECONDS
from sleipnir.graphs.state import encode
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.client.limits.commands import LimitCommands
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.client.rerun.agents import (
    SAME,
    ChosenAgent,
    choose_agent,
    require_changeable,
    require_place,
)
from sleipnir.scheduler.client.rerun.retelling import retold
from sleipnir.scheduler.client.steer import ANY_MACHINE
from sleipnir.scheduler.errors import (
    ActionRefused,
    NotOver,
    RunGone,
    RunNotFound,
    SubmissionRefused,
)
from sleipnir.scheduler.limits.money import dollars
from sleipnir.scheduler.limits.records import Used
from sleipnir.scheduler.runs.child_agents import meaning
from sleipnir.scheduler.runs.conversation.sessions import place_of_session
from sleipnir.scheduler.runs.events import RunRetried
from sleipnir.scheduler.runs.model import Run, RunContext, Status
from sleipnir.scheduler.runs.submit import context_of_agent, require_fitting, seed_text
from sleipnir.scheduler.runs.tries import AnotherTry, Beginning, OtherAgent

# Most engines have no archive.
with lazy_imports():
    from sleipnir.scheduler.store.archive import restoring

if TYPE_CHECKING:
    from sleipnir.scheduler.client.rerun.client import ClientCore


_ANSWER_REFUSED = "R019"


@dataclass(frozen=True, slots=True)
class RetryRequest:
    """What a retry changes."""

    from_step: int | None = None  # None: the step that was not completed
    state: Mapping[str, Any] = field(default_factory=dict)  # overrides the run's state
    agent: str | PreparedAgent = SAME
    timeout_s: float | None = None  # replaces the time limit
    shallow: bool = False  # new children in place of those that did not succeed
    budget_usd: float | None = None  # for all tries together; None: unchanged
    streamed: bool | None = None  # stream replies of models; None: unchanged
    machine: str | None = None  # whose workers take it; `any`: of every one; None: unchanged
    batch_budget_usd: float | None = None  # own budget of its batch; None: unchanged

    @property
    def reaches_children(self) -> bool:
        """Whether it may change child runs, too."""
        return self.agent != SAME or self.budget_usd is not None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a try begins."""

    step: int
    frontier: tuple[str, ...]
    visits: Mapping[str, int]  # by node, the frontier included
    begin: Beginning | None


def retry_run(client: ClientCore, run: Run, request: RetryRequest) -> None:
    """Retry a run; the caller makes it durable.

    Raises:
        RunNotFound: too little of it is left.
        ActionRefused: its status does not allow it, or it was retried meanwhile.
        SubmissionRefused, AgentNotFound, InvalidAgent, BundleError: as `prepare_retry`.
        ArchiveFailed: it is archived, and cannot be read.
    """
    again = prepare_retry(client, run, request)
    client.budget_check.require_budget(run.batch)
    if request.budget_usd is not None:
        _begin_budget(client, run, request.budget_usd)
    restoring.restore_tree(client.store, run.run_id)
    if request.machine is not None:
        client.move(run.run_id, None if request.machine == ANY_MACHINE else request.machine)
    try:
        client.store.runs.retry(again)
    except NotOver as error:
        raise ActionRefused(
            f"run {run.run_id} was retried by someone else in the meantime"
        ) from error
    except RunGone as error:
        raise RunNotFound(run.run_id) from error


def _begin_budget(client: ClientCore, run: Run, budget_usd: float) -> None:
    """Start a run's own budget with what it has used so far.

    Raises:
        SubmissionRefused: that leaves nothing of the budget.
    """
    usage = run.usage
    used = Used(usage.prompt_tokens + usage.completion_tokens, usage.cost_usd or 0.0)
    commands = LimitCommands(client.store)
    spent = max(commands.spent(f"run:{run.run_id}")[0], used.usd)
    if spent >= budget_usd:
        raise SubmissionRefused(
            f"run {run.run_id} has used {dollars(spent)} in all its tries, so a budget of "
            f"{dollars(budget_usd)} leaves nothing; --budget is the total of all tries"
        )
    commands.limiter.begin_own_budget(run.run_id, used)


def prepare_retry(client: ClientCore, run: Run, request: RetryRequest) -> AnotherTry:
    """Decide how a run continues.

    Raises:
        ActionRefused: it has not ended, or succeeded, or its parent has to be retried instead.
        SubmissionRefused: the changes are invalid.
        AgentNotFound, InvalidAgent, BundleError: the agent cannot run as it is now.
    """
    require_over(run, request.from_step)
    require_last_of_session(client, run)
    chosen = choose_agent(client, run, request.agent)
    changes = {key: seed_text(key, value) for key, value in request.state.items()}
    place = _place(client, run, request.from_step)
    require_changeable(run, changes, place.step - 1)
    require_place(chosen.graph, run.agent, {node: place.visits[node] for node in place.frontier})
    state = {**place.begin.state, **changes} if place.begin is not None else changes
    settings = client.store.settings
    require_fitting(state, settings.value_limit_bytes, settings.state_limit_bytes)
    number = run.tries + 1
    return AnotherTry(
        run_id=run.run_id,
        tries=run.tries,
        window=chosen.graph.settings.max_concurrency,
        event=RunRetried(
            place.step, place.frontier, number, tuple(sorted(changes)), chosen.digests
        ),
        begin=place.begin,
        changes=changes,
        checkpoint=_last_checkpoint(client, run, place.step - 1, changes) if changes else "",
        agent=_other_agent(run, chosen, request),
        children=tuple(_children(client, run, chosen.digest, chosen, request)),
        limit_ms=_limit_ms(chosen, request),
        shallow=request.shallow,
    )


def require_over(run: Run, from_step: int | None) -> None:
    """Check that a run may be retried.

    Raises:
        ActionRefused: it may not.
    """
    if run.parent is not None:
        raise ActionRefused(
            f"run {run.run_id} is a child of run {run.parent} and cannot be retried on its own: "
            f"retry run {run.context.root}"
        )
    if not run.is_final:
        raise ActionRefused(f"run {run.run_id} has not ended: it is {run.status}")
    if run.status == Status.SUCCEEDED and from_step is None:
        raise ActionRefused(
            f"run {run.run_id} has succeeded; say with --from which step to continue from"
        )


def require_last_of_session(client: ClientCore, run: Run) -> None:
    """Check that no later run continues the session of a run: it would not know the new answer.

    Raises:
        ActionRefused: one does.
    """
    session = run.context.session
    if session is None:
        return
    last = client.queries.last_run_of_session(place_of_session(run.agent, session))
    if last not in (None, run.run_id):
        raise ActionRefused(
            f"session '{session}' has continued with run {last}, so a retry of run {run.run_id} "
            f"would answer in no conversation: ask again in the session, or use "
            f"`sleipnir fork {run.run_id}`, which does not belong to it"
        )


def _place(client: ClientCore, run: Run, from_step: int | None) -> _Place:
    if from_step is None and run.capped:
        visits = dict(run.visits)
        for node in run.capped:
            visits[node] = visits.get(node, 0) + 1
        return _Place(run.step + 1, run.capped, visits, None)
    if from_step is None:
        return _Place(run.step, run.frontier, run.visits, None)
    last = run.step + (1 if run.capped else 0)
    if from_step > last:
        raise SubmissionRefused(
            f"run {run.run_id} has no step {from_step} to start from; its last one is {last}"
        )
    try:
        moment = client.queries.moment(run.run_id, from_step - 1)
    except IndexError as error:
        raise SubmissionRefused(f"run {run.run_id}: {error}") from error
    state = {key: encode(value) for key, value in moment.state.items()}
    gone = _failures_since(client, run, from_step)
    begin = Beginning(from_step, moment.frontier, state, moment.visits, gone)
    return _Place(from_step, moment.frontier, moment.visits, begin)


def _failures_since(client: ClientCore, run: Run, step: int) -> tuple[int, int]:
    """Return how many failures the checkpoints from a step on have: tolerated, and handled ones."""
    if not run.failed_nodes and not run.handled_failures:
        return 0, 0
    timings = [
        timing
        for checkpoint in client.queries.checkpoints(run.run_id, step)
        for timing in checkpoint.nodes.values()
    ]
    handled = sum(1 for timing in timings if timing.get("handled"))
    return sum(timing.get("failed", 0) for timing in timings), handled


def _last_checkpoint(client: ClientCore, run: Run, step: int, changes: Mapping[str, str]) -> str:
    """Return the checkpoint before the first step of a try, with the requested changes."""
    (checkpoint,) = islice(client.queries.checkpoints(run.run_id, step), 1)
    return retold(checkpoint, changes)


def _other_agent(run: Run, chosen: ChosenAgent, request: RetryRequest) -> OtherAgent | None:
    context = _without_refused_answer(run, chosen.context)
    if request.streamed is not None:
        context = replace(context, streamed=request.streamed)
    if request.budget_usd is not None:
        context = replace(context, budget_usd=request.budget_usd)
    if request.batch_budget_usd is not None:
        context = replace(context, batch_budget_usd=request.batch_budget_usd)
    seeds = tuple(dict.fromkeys((*context.seeds, *request.state)))
    context = replace(context, seeds=seeds)  # what the person says, no reply may change
    if context == run.context and chosen.digest == run.digest:
        return None
    return OtherAgent(run.run_id, chosen.digest, context, queues_of(chosen.graph, context.queue))


def _without_refused_answer(run: Run, context: RunContext) -> RunContext:
    """Return a context without prepared answers to a node that refused one, so that it asks."""
    if run.failure is None or run.failure.code != _ANSWER_REFUSED:
        return context
    answers = {node: given for node, given in context.answers.items() if node != run.failure.node}
    return replace(context, answers=answers)


def _limit_ms(chosen: ChosenAgent, request: RetryRequest) -> str:
    limit_s = request.timeout_s
    if limit_s is None and chosen.digests is None:
        return ""
    limit_s = chosen.graph.settings.limit_s if limit_s is None else limit_s
    return "-" if limit_s is None else str(int(min(limit_s, MAX_SECONDS) * 1000))


def _children(
    client: ClientCore, run: Run, digest_now: str, chosen: ChosenAgent, request: RetryRequest
) -> Iterator[OtherAgent]:
    """Yield the changed agents for the children that did not succeed.

    Args:
        digest_now: of the run's agent in its next try.
    """
    if not request.reaches_children:
        return
    for child in client.queries.children(run.run_id):
        if not child.is_final or child.status == Status.SUCCEEDED:
            continue
        digest = child.digest
        if request.agent != SAME:
            now = chosen.context
            digest = meaning(now.agents, now.unavailable, digest_now, child.agent)[0] or digest
        other = _other_child(client, child, digest, chosen.context)
        if request.budget_usd is not None:
            other = replace(other, context=replace(other.context, budget_usd=request.budget_usd))
        if (other.digest, other.context) != (child.digest, child.context):
            yield other
        yield from _children(client, child, other.digest, chosen, request)


def _other_child(client: ClientCore, child: Run, digest: str, root: RunContext) -> OtherAgent:
    """Return a child with another version of its agent, or with its own."""
    if digest == child.digest:
        return OtherAgent(child.run_id, digest, child.context, child.queues)
    graph = client.graph_of(replace(child, digest=digest))
    require_place(graph, child.agent, {node: child.visits.get(node, 1) for node in child.frontier})
    context = replace(
        context_of_agent(child.context, graph), agents=root.agents, unavailable=root.unavailable
    )
    return OtherAgent(child.run_id, digest, context, queues_of(graph, context.queue))
