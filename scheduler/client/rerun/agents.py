"""Chooses the agent for another try: the one the run began with, or the current one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sleipnir.graphs.document.references import SHIPPED_AGENTS
from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.schema import Graph
from sleipnir.records import dataclass
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.model import SHIPPED, Run, RunContext
from sleipnir.scheduler.runs.submit import context_of_agent

if TYPE_CHECKING:
    from sleipnir.scheduler.client.rerun.client import ClientCore

SAME = "same"
CURRENT = "current"  # any other choice is a path


@dataclass(frozen=True, slots=True)
class ChosenAgent:
    """The agent that a run continues with."""

    graph: Graph
    digest: str
    context: RunContext  # the run's context, adapted to the agent
    digests: tuple[str, str] | None  # then and now, if they differ


def choose_agent(client: ClientCore, run: Run, choice: str | PreparedAgent) -> ChosenAgent:
    """Return a run's agent as it was (`same`), as it is now (`current` or a path), or prepared.

    Raises:
        SubmissionRefused: the original is no longer stored, or this is a different agent.
        AgentNotFound, InvalidAgent, BundleError: the agent cannot run as it is now.
    """
    if choice == SAME:
        try:
            return ChosenAgent(client.graph_of(run), run.digest, run.context, None)
        except BundleError as error:
            raise SubmissionRefused(
                f"run {run.run_id} cannot continue as it was: {error}; use `--agent current` "
                "to continue with the agent as it is now"
            ) from error
    if isinstance(choice, str):
        choice = client.prepare(current_reference(run) if choice == CURRENT else choice)
    found = choice
    if found.name != run.agent:
        raise SubmissionRefused(f"run {run.run_id} is of agent '{run.agent}', not '{found.name}'")
    context = replace(
        context_of_agent(run.context, found.graph),
        agents=dict(found.agents),
        unavailable=dict(found.unavailable),
        agent_path=found.path,
    )
    changed = (run.digest, found.digest) if found.digest != run.digest else None
    return ChosenAgent(found.graph, found.digest, context, changed)


def current_reference(run: Run) -> str:
    """Return the directory of the run's agent, if it is on this machine, else its name."""
    return reference_of(run.agent, run.context.agent_path)


def reference_of(name: str, path: str | None) -> str:
    """Return where an agent was found, if that is on this machine, else its name."""
    if path == SHIPPED:
        path = str(SHIPPED_AGENTS / name)
    return path if path and Path(path).is_dir() else name


def require_changeable(run: Run, changes: Collection[str], step: int) -> None:
    """Check that the state after a step may be changed: of a conversation, only the first prompt.

    Args:
        changes: keys of the state.

    Raises:
        SubmissionRefused: it may not be changed.
    """
    allowed = {"initial_prompt"} if step == 0 else set()
    if run.context.converses and not allowed.issuperset(changes):
        raise SubmissionRefused(
            f"run {run.run_id} is of a normal agent: its conversation cannot be changed (--set, "
            "--prompt) once its first turn has started; start a new run, or fork it with "
            "--step 0 --prompt"
        )


def require_place(graph: Graph, agent: str, visits: Mapping[str, int]) -> None:
    """Check that a graph has the nodes to be visited, and that its visit cap allows them.

    Args:
        visits: by node of the frontier, this visit included.

    Raises:
        SubmissionRefused: a node is missing, or has reached its cap.
    """
    cap = graph.settings.max_loop_iterations
    for node, count in visits.items():
        if node not in graph.nodes:
            raise SubmissionRefused(f"agent '{agent}' as it is now has no node '{node}'")
        if count > cap:
            raise SubmissionRefused(
                f"node '{node}' was visited {count - 1} times, and max_loop_iterations is {cap}: "
                "continue from an earlier step, or with `--agent current` and a higher cap"
            )
