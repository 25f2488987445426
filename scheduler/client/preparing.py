"""The part of the Python client that prepares agents and new runs."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.client.knowledge.pointers import PendingPointers
from sleipnir.scheduler.errors import SubmissionRefused

# Most clients only read runs.
with lazy_imports():
    from sleipnir.graphs.document import finding as findings
    from sleipnir.graphs.document import queues
    from sleipnir.scheduler.client import preparation, sessions
    from sleipnir.scheduler.client.hooks import own_urls
    from sleipnir.scheduler.config import machine_facts
    from sleipnir.scheduler.runs import submit as submission
    from sleipnir.scheduler.store import machines

if TYPE_CHECKING:
    from pathlib import Path

    from sleipnir.graphs.document.references import AgentSearch
    from sleipnir.scheduler.client.knowledge.plans import ChooseBuild
    from sleipnir.scheduler.client.preparation import PreparedAgent
    from sleipnir.scheduler.runs.conversation.sessions import Session
    from sleipnir.scheduler.runs.model import NewRun
    from sleipnir.scheduler.runs.recording import MadeWith
    from sleipnir.scheduler.runs.submit import Request
    from sleipnir.scheduler.store.machines import QueueNames
    from sleipnir.scheduler.store.run_store import RunStore


class NewRuns(Protocol):
    """What this part needs of the rest of a client."""

    store: RunStore

    @property
    def queue_names(self) -> QueueNames: ...

    def session_for(self, agent: PreparedAgent, request: Request) -> Session | None: ...

    def new_run(self, agent: PreparedAgent, request: Request) -> NewRun: ...


class Preparing:
    """Prepares agents, and writes pointers to the knowledge bases that their runs have built."""

    store: RunStore
    search: AgentSearch

    def prepare(
        self,
        reference: str,
        workdir: Path | None = None,
        choose: ChooseBuild | None = None,
        made_with: MadeWith | None = None,
    ) -> PreparedAgent:
        """Find, validate and pack an agent, and store its bundles.

        Args:
            workdir: the working directory of its runs, which may have skills; None: the current
            one.
            choose: asks for missing settings of unbuilt knowledge bases; None: nobody is asked.
            made_with: of a recording that is replayed; its settings come before those here.

        Raises:
            AgentNotFound, InvalidAgent, BundleError: the agent is unusable.
            SubmissionRefused: a name means different agents in different places.
        """
        settings, put = self.store.settings, self.store.bundles.put
        preparing = preparation.Preparation(settings, self.search, put, workdir, choose, made_with)
        prepared = preparing.prepare(reference)
        self.pending_pointers.add(prepared.unbuilt, prepared.built)
        return prepared

    @cached_property
    def queue_names(self) -> QueueNames:
        """The names of queues that runs have named."""
        return machines.QueueNames(self.store.client, self.store.settings.retention_s)

    @cached_property
    def pending_pointers(self) -> PendingPointers:
        """The unbuilt knowledge bases of agents prepared here."""
        return PendingPointers(self.store)

    def check(self: NewRuns, agent: PreparedAgent, request: Request) -> None:
        """Check that `submit` would accept this; Redis is only read for a session.

        Raises:
            SubmissionRefused: it would not.
        """
        self.new_run(agent, request)

    def new_run(self: NewRuns, agent: PreparedAgent, request: Request) -> NewRun:
        """Return the run for a request to an agent, without storing it.

        Raises:
            SubmissionRefused, SessionInUse: it would not be accepted.
        """
        if request.guarded and request.confirmed:
            raise SubmissionRefused("--ask and --yes contradict each other: give one of them")
        warnings = tuple(
            f"{finding.code}{f' [{finding.node}]' if finding.node else ''} {finding.message}"
            for finding in findings.folded(agent.warnings)
        )
        if request.webhook is not None:
            own_urls.require_webhook(self.store, request.webhook)
        session = self.session_for(agent, request)
        if session is not None and session.last_run != request.run_id:  # else it was accepted
            sessions.require_idle(session)
        run = submission.new_run(
            agent.graph,
            agent.digest,
            replace(request, guarded=request.guarded or not self.store.settings.auto_confirm),
            agent=agent.name,
            agents=agent.agents,
            unavailable=agent.unavailable,
            warnings=warnings,
            facts=_facts_for(agent),
            session=session,
        )
        run = replace(run, context=replace(run.context, agent_path=agent.path))
        settings = self.store.settings
        submission.require_fitting(
            run.state, settings.value_limit_bytes, settings.state_limit_bytes
        )
        self.queue_names.note({*agent.queues, *queues.named_in(run.queues)})
        return run


def _facts_for(agent: PreparedAgent) -> dict[str, str]:
    """Return the facts about this machine for prompts and skills of its agents."""
    if not agent.needs_facts:
        return {}
    facts = machine_facts.machine_facts()
    return {**facts, submission.AGENTS_FACT: agent.directory} if agent.directory else facts
