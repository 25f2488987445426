"""The rows of a plan: what each node of an agent does in one run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from sleipnir.graphs.document.loader import Agent, load_agent
from sleipnir.graphs.document.references import AgentSearch
from sleipnir.graphs.errors import GraphError
from sleipnir.graphs.plan.calls import is_cached
from sleipnir.graphs.plan.flow import flow_of, flow_of_item
from sleipnir.graphs.plan.interval import Interval, exactly
from sleipnir.graphs.plan.visits import visit_bounds
from sleipnir.graphs.schema import AgentNode, BaseNode, Graph, LlmNode, MapNode
from sleipnir.graphs.template import references, resolve
from sleipnir.graphs.validator.scripts import nodes_that_may_lead_anywhere
from sleipnir.records import dataclass
from sleipnir.scheduler.config.settings import Settings
from sleipnir.worker.plan.amounts import ANY_AMOUNTS, Amounts
from sleipnir.worker.plan.files import PlannedFiles
from sleipnir.worker.plan.node_amounts import NodeAmounts
from sleipnir.worker.plan.prices import PlannedModels
from sleipnir.worker.plan.prompts import Prompt, Prompts


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node in one run, or in either of several."""

    node_id: str
    type: str
    visits: Interval
    amounts: Amounts
    known_calls: float = 0  # of the least calls, those whose prompt is known
    longest_prompt: int = 0  # tokens of its known part
    prompt_key: int | None = None  # of its only prompt, if that is known and its reply cached

    def or_other(self, other: NodeRow) -> NodeRow:
        """Return the row of either of two lines."""
        return NodeRow(
            self.node_id,
            self.type,
            self.visits.or_other(other.visits),
            self.amounts.or_other(other.amounts),
            min(self.known_calls, other.known_calls),
            max(self.longest_prompt, other.longest_prompt),
        )


@dataclass(frozen=True, slots=True)
class _Place:
    """Where runs come to a node: in the graph itself, or for each item of a map."""

    visits: Interval  # of the node, or of it for one item
    map_node: MapNode | None = None
    maps: Interval = exactly(1)  # visits of the map


class AgentRows:
    """The rows of one agent's runs."""

    def __init__(self, planner: Planner, directory: Path, graph: Graph, depth: int) -> None:
        self._graph = graph
        self.prompts = Prompts(graph, directory, planner.files)
        self._amounts = NodeAmounts(
            graph,
            self.prompts,
            planner.settings,
            planner.models,
            partial(planner.child, parent=directory, graph=graph, depth=depth),
        )
        self._places = _places(graph, directory)

    def of_run(self, state: Mapping[str, Any]) -> list[NodeRow]:
        """Return a row for each node, in file order, for a run with this first state."""
        known = self.prompts.known(state)
        return [self._row(node_id, known) for node_id in self._graph.nodes]

    def _row(self, node_id: str, known: Mapping[str, Any]) -> NodeRow:
        node = self._graph.nodes[node_id]
        visits, amounts, known_calls, prompts = exactly(0), Amounts(), 0.0, list[Prompt]()
        for place in self._places[node_id]:
            count, states = _invocations(place.map_node, known)
            times = place.visits * place.maps
            visits += times * count
            if not states:  # how many there are is not known
                amounts += self._amounts.of_visit(node_id, node, known) * times * count
            for each in states:
                one = self._amounts.of_visit(node_id, node, each) * times
                amounts += one
                if isinstance(node, LlmNode):
                    prompts.append(self.prompts.prompt(node_id, node, each))
                if self._amounts.is_known(node_id, node, each):
                    known_calls += one.calls.least
        longest = max((prompt.tokens for prompt in prompts), default=0)
        key = self._key(node, prompts)
        return NodeRow(node_id, node.type, visits, amounts, known_calls, longest, key)

    def _key(self, node: BaseNode, prompts: Sequence[Prompt]) -> int | None:
        if len(prompts) != 1 or not prompts[0].is_known or not isinstance(node, LlmNode):
            return None
        return prompts[0].key if is_cached(self._graph, node) else None


def _places(graph: Graph, directory: Path) -> Mapping[str, list[_Place]]:
    anywhere = nodes_that_may_lead_anywhere(directory, graph)
    main = visit_bounds(flow_of(graph, anywhere))
    places: dict[str, list[_Place]] = defaultdict(list)
    for node_id, visits in main.items():
        places[node_id].append(_Place(visits))
    for map_id, node in graph.nodes_of(MapNode):
        for node_id, visits in visit_bounds(flow_of_item(graph, node, anywhere)).items():
            places[node_id].append(_Place(visits, node, main.get(map_id, exactly(0))))
    return places


def _invocations(
    node: MapNode | None, known: Mapping[str, Any]
) -> tuple[Interval, Sequence[Mapping[str, Any]]]:
    """Return how many items there are, and what is known in each; none: of an unknown list."""
    if node is None:
        return exactly(1), [known]
    found = references(node.over)
    path = found[0].path if len(found) == 1 else None
    items = resolve(path, (known,)) if path is not None else None
    if not isinstance(items, list):
        return Interval(0, inf), []
    return exactly(len(items)), [{**known, node.item_name: item} for item in items]


class Planner:
    """Plans runs of an agent, and of those that its nodes run."""

    def __init__(
        self,
        settings: Settings,
        search: AgentSearch,
        stored: Callable[[str], Path | None] = lambda _digest: None,
        *,
        economy: bool = False,
    ) -> None:
        self.settings = settings
        self.files = PlannedFiles(settings.attach_file_limit_bytes, stored)
        self.models = PlannedModels(settings.models, economy=economy)
        self._search = search
        self._children: dict[tuple[Path, int], Amounts] = {}

    def rows_of(self, directory: Path, graph: Graph) -> AgentRows:
        """Return the rows of an agent that can be run, by its directory."""
        return AgentRows(self, directory, graph, 0)

    def child(self, node: AgentNode, *, parent: Path, graph: Graph, depth: int) -> Amounts:
        """Return the amounts of one run of a node's agent, as far as its files tell."""
        limit = self.settings.max_agent_depth
        if graph.max_agent_depth is not None:
            limit = min(limit, graph.max_agent_depth)
        if depth >= limit:
            return Amounts()  # it cannot start, so the node fails
        try:
            directory = self._search.find(node.agent, parent)
            if (directory, depth) not in self._children:
                agent = load_agent(directory)
                self._children[directory, depth] = self._of_child(agent, depth + 1)
        except (GraphError, OSError):
            return ANY_AMOUNTS
        return self._children[directory, depth]

    def _of_child(self, agent: Agent, depth: int) -> Amounts:
        graph = agent.runnable
        if graph is None:
            return ANY_AMOUNTS
        rows = AgentRows(self, agent.directory, graph, depth)
        return total(rows.of_run(dict(graph.initial_state)))


def total(rows: Sequence[NodeRow]) -> Amounts:
    """Return the amounts of all nodes of a run."""
    amounts = Amounts()
    for row in rows:
        amounts += row.amounts
    return amounts


def merged(rows: Sequence[NodeRow], others: Sequence[NodeRow]) -> list[NodeRow]:
    """Return the rows of either of two lines."""
    return [row.or_other(other) for row, other in zip(rows, others, strict=True)]
