"""The child runs that a node or a model starts, as runs of their own in the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.bundles.archive import Bundle
from sleipnir.graphs.errors import BundleError, NodeFailed
from sleipnir.graphs.normal_agent import is_normal
from sleipnir.graphs.schema import Graph
from sleipnir.graphs.state import PROMPT_KEY
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.child_agents import meaning
from sleipnir.scheduler.runs.events import ChildStarted
from sleipnir.scheduler.runs.model import Begun, Failure, Lease, NewRun, RunContext
from sleipnir.worker.delivery.services import Services
from sleipnir.worker.visit.services import SpawnOrder

# Lazy, as few visits start another run.
with lazy_imports():
    from sleipnir.scheduler.process.telemetry import identity
    from sleipnir.scheduler.runs import submit
    from sleipnir.scheduler.runs.conversation import memory, roster

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.teams import Membership

_CANCELLED = Failure("cancelled", "cancelled by the agent that had spawned it", None)


class StoredChildren:
    """The children of the run that a leased visit belongs to (a `ChildService`)."""

    __slots__ = ("_begun", "_digest", "_lease", "_node_id", "_services")

    def __init__(
        self, services: Services, lease: Lease, node_id: str, begun: Begun, digest: str
    ) -> None:
        self._digest = digest  # of the run's agent
        self._services = services
        self._lease = lease
        self._node_id = node_id
        self._begun = begun

    @property
    def _context(self) -> RunContext:
        return self._begun.context

    def prepare(
        self, agent: str, prompt: str, inputs: Mapping[str, Any], joined: Membership | None
    ) -> NewRun:
        """Return the run of another agent for a node to start."""
        graph, settings = self._services.agents.get(self._digest).graph, self._services.settings
        try:
            digest = self._digest_of(agent, graph.max_agent_depth)
            member = "" if joined is None else joined.me.id
            seeds = inputs or self._remembered(digest, joined)
            child = self._child(
                agent, digest, prompt, model=graph.model, state=seeds, member=member
            )
            if inputs:
                _require_takes(child, inputs)
                submit.require_fitting(
                    child.state, settings.value_limit_bytes, settings.state_limit_bytes
                )
            return child
        except submit.NestedTooDeep as error:
            raise NodeFailed("R017", str(error)) from error
        except (SubmissionRefused, BundleError) as error:
            raise NodeFailed("R015", f"agent '{agent}' cannot start: {error}") from error

    def _remembered(self, digest: str, joined: Membership | None) -> Mapping[str, Any]:
        """Return what a normal agent has of its member's earlier agents: what they have read."""
        if joined is None or not is_normal(self._services.agents.get(digest).graph):
            return {}
        return {memory.MESSAGES_READ: joined.read} if joined.read else {}

    def prepare_own(
        self, name: str, bundle: Bundle, run_id: str, seeds: Mapping[str, Any]
    ) -> NewRun:
        """Return the run of an agent of the engine's own, at any depth."""
        self._services.store.bundles.put(bundle.digest, bundle.data)
        anywhere = replace(self._context, machine=None)
        return self._child(name, bundle.digest, "", parent=anywhere, run_id=run_id, state=seeds)

    def spawn(self, order: SpawnOrder) -> int | None:
        """Start a child, at most once per id; return how many are alive if that is the limit."""
        digest = self._digest_of(order.agent, order.deepest)
        # Its descendants see these values, too.
        variables = {**self._context.submitted_vars, **order.variables}
        child = self._child(
            order.agent,
            digest,
            order.prompt,
            parent=replace(self._context, submitted_vars=variables),
            run_id=order.run_id,
            model=order.model,
            handle=roster.handle(order.agent, order.run_id),
        )
        event = ChildStarted(self._node_id, order.agent, order.run_id)
        children = self._services.store.children
        return children.start(self._lease, child, order.most, event=event)

    def _digest_of(self, agent: str, deepest: int | None) -> str:
        deepest = self._services.settings.max_agent_depth if deepest is None else deepest
        return submit.child_digest(self._context, self._digest, agent, deepest)

    def _child(
        self,
        agent: str,
        digest: str,
        prompt: str,
        *,
        parent: RunContext | None = None,
        **details: Any,
    ) -> NewRun:
        return submit.child_run(
            self._services.agents.get(digest).graph,
            digest,
            parent=self._traced(parent or self._context),
            parent_run=self._lease.run_id,
            parent_visit=self._lease.visit,
            agent=agent,
            prompt=prompt,
            **details,
        )

    def _traced(self, context: RunContext) -> RunContext:
        """Return the context with this visit as the parent in traces of what it starts."""
        if self._services.spans is None and not context.trace:
            return context
        run_id, begun = self._lease.run_id, self._begun
        trace = identity.trace_of(run_id, begun.run_try, context.trace, context.tracestate)
        span = identity.visit_span(run_id, begun.run_try, self._lease.visit, begun.attempt)
        return replace(context, trace=trace._replace(parent=span).stored(), tracestate=trace.state)

    def graph(self, agent: str) -> Graph | None:
        """Return an agent that may be started; None if it cannot be loaded."""
        context = self._context
        digest, _ = meaning(context.agents, context.unavailable, self._digest, agent)
        try:
            return None if digest is None else self._services.agents.get(digest).graph
        except BundleError:
            return None

    def statuses(self, run_ids: Sequence[str]) -> Sequence[str | None]:
        """Return the statuses of children; None for one whose record is gone."""
        return self._services.store.children.statuses(run_ids)

    def result(self, run_id: str) -> Mapping[str, Any] | None:
        """Return the result of a child that has ended, or None."""
        return self._services.store.children.result(run_id)

    def texts(self, run_id: str) -> str | None:
        """Return everything a child's model has said, if that is more than its output."""
        return self._services.store.children.texts(run_id)

    def cancel(self, run_id: str) -> None:
        """Cancel a child if it has not ended."""
        self._services.store.runs.close(run_id, "cancelled", _CANCELLED)

    def spawned(self) -> Sequence[str]:
        """Return the children that this visit has spawned and that go on."""
        return self._services.store.children.spawned_by(self._lease)


def _require_takes(child: NewRun, inputs: Mapping[str, Any]) -> None:
    """Check what validation checks too, but can be switched off."""
    if child.context.converses:
        raise SubmissionRefused(f"'inputs' needs a graph agent; '{child.agent}' has a config.yaml")
    if PROMPT_KEY in inputs:
        raise SubmissionRefused(f"'inputs.{PROMPT_KEY}' is the prompt itself")
