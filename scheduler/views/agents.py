"""Documents about agents: those available here, and those of stored runs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from sleipnir.graphs import skills as skill_files
from sleipnir.graphs.document import loader
from sleipnir.graphs.errors import InvalidAgent
from sleipnir.graphs.variables import defaults_of
from sleipnir.scheduler.client import preparation
from sleipnir.scheduler.client.endings import EndedRuns, RunCounts
from sleipnir.scheduler.client.spending import day_text
from sleipnir.scheduler.runs.model import FINAL, RunRow, Status
from sleipnir.scheduler.runs.spending import NOTHING_SPENT, Spent, sum_of
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.figures.by_time import DAY_MS
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views.documents import elapsed_s, form_field_document

if TYPE_CHECKING:
    from sleipnir.graphs.document.loader import Agent
    from sleipnir.graphs.normal_agent import NormalAgent
    from sleipnir.graphs.schema import Graph
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types import agents as types

# The newest runs of an agent that typical figures are computed from.
MOST_RUNS = 1_000
# The newest runs, whose agents are known before any of their runs has ended.
_RECENT = 200
_WEEK_MS = 7 * DAY_MS
_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
Period = Literal["today", "7d", "30d"]
# Days of each, in UTC; the last one is today.
PERIODS: Final[Mapping[Period, int]] = {"today": 1, "7d": 7, "30d": 30}
Order = Literal["name", "spent", "runs", "failed", "took", "cost"]
_ORDERS: Final[Mapping[Order, Callable[[types.UsedAgentDocument], Any]]] = {
    "name": lambda agent: agent["name"],
    "spent": lambda agent: (-agent["spent"]["cost_usd"], -agent["spent"]["total_tokens"]),
    "runs": lambda agent: -agent["runs"],
    "failed": lambda agent: -agent["failed"] / (agent["runs"] or 1),
    "took": lambda agent: -(agent["took_s"]["p50"] or 0),
    "cost": lambda agent: -(agent["cost_usd"]["p50"] or 0),
}
ORDERS: Final = tuple(_ORDERS)


def readable_agent(directory: Path) -> Agent | None:
    """Return the agent in a directory; None if its file is invalid."""
    try:
        return loader.load_agent(directory, os.environ)
    except InvalidAgent:
        return None


def agent_row(name: str, directory: Path, agent: Agent | None) -> types.AgentRowDocument:
    """Return a short document of an agent; `agent` is None if it cannot be read."""
    if agent is None:
        kind, description = "invalid", f"see: sleipnir validate {name}"
    else:
        kind, description = kind_of(agent), definition_document(agent)["description"]
    return {"name": name, "kind": kind, "description": description, "directory": str(directory)}


def kind_of(agent: Agent) -> str:
    """Return the kind of an agent, as `sleipnir agents` prints it."""
    return "graph" if agent.is_graph else "normal"


def definition_document(agent: Agent | None) -> types.DefinitionDocument:
    """Return the definition of an agent for its users; `agent` is None if it cannot be read."""
    defined = None if agent is None else agent.graph or agent.normal
    if agent is None or defined is None:
        return {
            "kind": "invalid",
            "instructions": "",
            "description": "",
            "variables": [],
            "nodes": [],
            "tools": [],
            "skills": [],
            "conversation_starters": [],
            "form": {},
        }
    return {
        "kind": kind_of(agent),
        "instructions": agent.normal.instructions if agent.normal else "",
        "description": defined.description,
        "variables": _variable_documents(defined),
        "nodes": _nodes(agent.graph) if agent.graph else [],
        "tools": [*defined.global_tools, *(f"mcp:{name}" for name in defined.mcp_servers)],
        "skills": list(_skills(agent)),
        "conversation_starters": list(defined.conversation_starters),
        "form": {name: form_field_document(each) for name, each in defined.form.items()},
    }


def _variable_documents(defined: Graph | NormalAgent) -> list[types.AgentVariableDocument]:
    defaults = defaults_of(defined)
    return [
        {
            "name": variable.name,
            "description": variable.description,
            "default": None if variable.secret else defaults.get(variable.name),
            "secret": variable.secret,
            "required": variable.default is None,
        }
        for variable in defined.variables
    ]


def _nodes(graph: Graph) -> list[types.AgentNodeDocument]:
    return [
        {
            "id": key,
            "type": node.type,
            "description": node.description or "",
            "model": getattr(node, "model", None)
            or (graph.model if "model" in node.MODELS else None),
            "prompt": getattr(node, "prompt", None),
            "tools": list(getattr(node, "tools", None) or ()),
            "queue": node.queue or graph.queue,
        }
        for key, node in graph.nodes.items()
    ]


def _skills(agent: Agent) -> Iterator[types.AgentSkillDocument]:
    """Yield the skills that its models may load, as far as they are found."""
    graph = agent.runnable
    choices = list(skill_files.choices_in(graph)) if graph is not None else []
    library = skill_files.SkillLibrary(preparation.skill_directories()) if choices else None
    for name, file in library.chosen(choices).items() if library else ():
        try:
            description = skill_files.read_skill(file).description
        except skill_files.UnusableSkill as error:
            description = f"cannot be loaded: {error}"
        yield {"name": name, "description": description, "file": str(file)}


def models_of(graph: Graph, default: str | None) -> list[str]:
    """Return the models of its nodes, which default to the agent's, then to the engine's."""
    found = {
        getattr(node, "model", None) or graph.model or default
        for node in graph.nodes.values()
        if hasattr(node, "model")
    }
    return sorted(filter(None, found))


# ---- use


def agents_document(
    client: Client, *, period: Period = "7d", sort: Order = "name"
) -> types.AgentListDocument:
    """Return all agents that are available here, have stored runs or have spent, with their use.

    What they spent includes calls of open and of removed runs, and of their child runs.
    """
    here = client.search.names()
    tally = client.queries.tally()
    now_ms = client.queries.now_ms()
    today = now_ms // DAY_MS
    days = [day_text(day) for day in range(today + 1 - PERIODS[period], today + 1)]
    first_ms = (today - PERIODS[period] + 1) * DAY_MS
    ended = client.ended(("agent", "day"), since=date.fromisoformat(days[0]))
    spent = client.queries.spent_since(first_ms, now_ms)
    rows = {
        name: agent_row(name, directory, readable_agent(directory))
        for name, directory in here.items()
    }
    names = sorted({*rows, *_used(tally), *spent, *(agent for agent, _ in ended.rows)})
    use = _use_of(ended, days, names)
    agents: list[types.UsedAgentDocument] = [
        {
            **(rows.get(name) or _gone(name)),
            **use[name],
            "spent": _spent_document(spent.get(name, NOTHING_SPENT)),
        }
        for name in names
    ]
    return {
        "period": period,
        "since": to_rfc3339(first_ms),
        "spent": _spent_document(sum_of(spent.values())),
        "agents": sorted(agents, key=_ORDERS[sort]),
    }


def _gone(name: str) -> types.AgentRowDocument:
    return {"name": name, "kind": None, "description": "", "directory": None}


def _spent_document(spent: Spent) -> types.SpentDocument:
    return {
        "calls": spent.calls,
        "total_tokens": spent.prompt_tokens + spent.completion_tokens,
        "cost_usd": spent.known_usd,
        "unpriced_calls": spent.unpriced,
    }


def agents_named(client: Client, names: Sequence[str]) -> tuple[str, ...]:
    """Return the agents meant by names: those of that name, else all whose names begin with it."""
    if not names:
        return ()
    known = _listed_agents(client)
    if not known.issuperset(names):
        known |= _recent_agents(client)
    found: list[str] = []
    for name in names:
        longer = sorted(each for each in known if each.startswith(name))
        found += [name] if name in known or not longer else longer
    return tuple(dict.fromkeys(found))


def known_agents(client: Client) -> set[str]:
    """Return the names of agents that are available, or have runs."""
    return _listed_agents(client) | _recent_agents(client)


def _listed_agents(client: Client) -> set[str]:
    """Return the names of agents that are available, or of which runs have ended."""
    return {*client.search.names(), *_used(client.queries.tally())}


def _recent_agents(client: Client) -> set[str]:
    return {run.agent for run in client.queries.list_runs(RunFilter(), _RECENT).entries}


def _used(tally: Mapping[str, int]) -> set[str]:
    """Return the agents of runs that have ended."""
    return {field[2] for name in tally if (field := _ended_field(name)) is not None}


def _use_of(
    found: EndedRuns, days: Sequence[str], agents: Iterable[str]
) -> dict[str, types.AgentUseDocument]:
    """Return how the runs of agents ended on some days; `found` is by agent and day."""
    use: dict[str, types.AgentUseDocument] = {}
    for agent in agents:
        by_day = [found.rows.get((agent, day), RunCounts()) for day in days]
        runs = sum(by_day, RunCounts())
        use[agent] = {
            "runs": runs.total,
            "failed": runs.failed,
            "runs_by_day": [each.total for each in by_day],
            "took_s": {name: runs.took_s(share) for name, share in _SHARES.items()},
            "cost_usd": {name: runs.cost_usd(share) for name, share in _SHARES.items()},
        }
    return use


def tally_document(client: Client) -> types.TallyDocument:
    """Return the sums over stored root runs that have ended, by agent: the basis of metrics."""
    tally = client.queries.tally()
    fields = {name: field for name in tally if (field := _ended_field(name)) is not None}
    return {
        "agents": [_sums(tally, fields, agent) for agent in sorted({f[2] for f in fields.values()})]
    }


def _sums(
    tally: Mapping[str, int], fields: Mapping[str, tuple[str, str, str]], agent: str
) -> types.AgentTallyDocument:
    runs: Counter[str] = Counter()
    took: Counter[str] = Counter()
    for name, (status, duration, of) in fields.items():
        if of == agent:
            runs[status] += tally[name]
            took[duration] += tally[name]
    return {
        "agent": agent,
        "runs": dict(runs),
        "took_s": dict(took),
        "cost_usd": tally.get(f"cost {agent}", 0) / 1e9,
        "prompt_tokens": tally.get(f"prompt {agent}", 0),
        "completion_tokens": tally.get(f"completion {agent}", 0),
        "cached_tokens": tally.get(f"cached {agent}", 0),
    }


def _ended_field(name: str) -> tuple[str, str, str] | None:
    """Return status, duration and agent of a count of ended runs; None for other sums."""
    status, _, rest = name.partition(" ")
    duration, _, agent = rest.partition(" ")
    return (status, duration, agent) if status in FINAL and agent else None


def typical_document(rows: Sequence[RunRow], now_ms: int) -> types.TypicalDocument:
    """Return the typical duration and cost of an agent's runs that ended in the last week."""
    ended = [run for run in rows if run.is_final and run.created_at >= now_ms - _WEEK_MS]
    took = [elapsed_s(run, now_ms) for run in ended]
    costs = [run.usage.cost_usd for run in ended if run.usage.cost_usd is not None]
    steps = [run.step for run in ended]
    failed = sum(run.status in (Status.FAILED, Status.TIMED_OUT) for run in ended)
    return {
        "runs": len(ended),
        "failed": failed,
        "elapsed_s": {name: percentile(took, share) for name, share in _SHARES.items()},
        "steps": {name: percentile(steps, share) for name, share in _SHARES.items()},
        "cost_usd": {name: percentile(costs, share) for name, share in _SHARES.items()},
        "last_good": next((run.run_id for run in ended if run.status == Status.SUCCEEDED), None),
    }


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the percentile of the values for this share; None if there are none."""
    return sorted(values)[max(0, ceil(len(values) * share) - 1)] if values else None


def newest_runs(client: Client, agent: str) -> tuple[RunRow, ...]:
    """Return the newest root runs of an agent."""
    return client.queries.list_runs(RunFilter(agents=(agent,)), MOST_RUNS).entries
