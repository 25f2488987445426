"""The agents that a run's model may start, and what it may give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from sleipnir.graphs.document.finding import listing
from sleipnir.graphs.schema import Graph, Variable
from sleipnir.graphs.state import encode
from sleipnir.graphs.variables import defaults_of
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.child_agents import digests_for, meaning, names_in
from sleipnir.worker.conversation.declaring import Param
from sleipnir.worker.conversation.function_kinds import call_error, refusal
from sleipnir.worker.visit.context import Visit

# Of the variables of one agent, as they are read with each of its visits.
_LARGEST_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class SpawnRules:
    """What limits the agents that a model starts, and how their results are handed over."""

    model: str | None  # for agents that name none
    deepest: int | None  # nesting; a root is 0; None: as the engine's setting says
    most: int  # alive at once
    permitted: list[str] | None  # names; None: all that are found
    # A longer output is summarised, in characters; None: none is.
    longest_output: int | None = None
    summary_model: str | None = None  # None: the visit's own


@dataclass(frozen=True, slots=True)
class StartableAgents:
    """The agents packed with the run that its model may start."""

    visit: Visit[Any]
    permitted: list[str] | None  # names; None: all that are found

    def require(self, agent: str) -> None:
        """Check that an agent may be started, and that there is one.

        Raises:
            CallRefused: it may not, or there is none.
        """
        self.require_permitted(agent)
        unknown = self._unknown(agent)
        if unknown is not None:
            raise call_error(unknown)

    def checking(self, parameters: Mapping[str, Param]) -> Mapping[str, Param]:
        """Return parameters of which `agent` takes only agents that may be started."""
        return {**parameters, "agent": replace(parameters["agent"], check=self.require_permitted)}

    def require_permitted(self, agent: str) -> None:
        """Check that an agent may be started.

        Raises:
            CallRefused: it may not.
        """
        permitted = self.permitted
        if permitted is not None and agent not in permitted:
            others = f"you may start {listing(permitted)}" if permitted else "you may start none"
            raise refusal(f"'{agent}' is not among your spawnable_agents; {others}")

    def _unknown(self, agent: str) -> str | None:
        """Return why there is no agent of that name; None if there is one."""
        context = self.visit.context
        digest, why = meaning(context.agents, context.unavailable, self.visit.agent.digest, agent)
        if digest is not None:
            return None
        if why is not None:
            return f"agent '{agent}' cannot start: {why}"
        known = names_in(context.agents)
        near = get_close_matches(agent, known)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {listing(known)}"
        return f"there is no agent '{agent}'; {hint}"

    def variables_for(self, agent: str, given: Any) -> dict[str, str]:
        """Return the values that a model gives for variables of an agent.

        Raises:
            CallRefused: they are not texts by name, too large, or the agent does not declare them.
        """
        if given is None:
            return {}
        is_mapping = isinstance(given, dict) and all(isinstance(v, str) for v in given.values())
        if not is_mapping:
            raise refusal("'variables' must be an object of texts by name")
        if len(encode(given).encode()) > _LARGEST_BYTES:
            raise refusal(f"the variables are larger than {_LARGEST_BYTES // 1024} KiB")
        graph = self.visit.services.children.graph(agent) if given else None
        if graph is not None:
            _require_declared(agent, graph.variables, given)
        return dict(given)

    def described(self) -> dict[str, Any]:
        """Return all agents that may be started, as shown to the model."""
        names = digests_for(self.visit.context.agents, self.visit.agent.digest)
        found = [
            _description(name, graph)
            for name in sorted(names)
            if self.permitted is None or name in self.permitted
            if (graph := self.visit.services.children.graph(name)) is not None
        ]
        return {"count": len(found), "agents": found}


def _require_declared(agent: str, declared: list[Variable], given: Mapping[str, str]) -> None:
    known = {variable.name: variable.description for variable in declared}
    unknown = [name for name in given if name not in known]
    if unknown:
        has = "; ".join(f"{name} ({about})" for name, about in known.items()) or "none"
        raise refusal(f"agent '{agent}' declares no variable {listing(unknown)}; it has: {has}")


def _description(name: str, graph: Graph) -> dict[str, Any]:
    described: dict[str, Any] = {"name": name}
    if graph.description:
        described["description"] = graph.description
    if graph.variables:
        defaults = defaults_of(graph)
        described["variables"] = [_variable(each, defaults) for each in graph.variables]
    return described


def _variable(variable: Variable, defaults: Mapping[str, str]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": variable.name,
        "description": variable.description,
        "required": variable.default is None,
    }
    if variable.default is not None and not variable.secret:
        shown["default"] = defaults[variable.name]
    return shown
