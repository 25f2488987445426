"""What commands with --economy say before they submit anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sleipnir.graphs.document.finding import listing
from sleipnir.graphs.schema import Graph, LlmNode
from sleipnir.scheduler.batch.models import graphs_of
from sleipnir.scheduler.client.limits.commands import LimitCommands
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.config.economy import has_batches
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.store.run_store import RunStore

_CODE = "W033"


def announce_economy(
    agent: PreparedAgent,
    store: RunStore,
    say: Callable[[str], None],
    *,
    only: bool = False,
    has_budget: bool = False,
) -> None:
    """Say which calls are made live all the same, and what keeps others from a batch.

    Args:
        only: whether calls may never be live.
        has_budget: whether the runs get a budget of their own, besides those of all runs.

    Raises:
        SubmissionRefused: some calls would be live, and may not.
    """
    nodes = [
        (graph, name, node)
        for graph in graphs_of(agent, store.bundles)
        for name, node in graph.nodes_of(LlmNode)
        if graph.waits_for_batches(node)
    ]
    _announce_live_calls([(graph, node) for graph, _, node in nodes], store.settings, say, only)
    if has_budget or LimitCommands(store).rules().budgets:
        _hint_long_replies(nodes, say)


def _announce_live_calls(
    nodes: list[tuple[Graph, LlmNode]], settings: Settings, say: Callable[[str], None], only: bool
) -> None:
    models = [
        model
        for model in dict.fromkeys(_models(nodes, settings))
        if not has_batches(model.partition(":")[0], settings.models)
    ]
    if not models:
        return
    if only:
        raise SubmissionRefused(
            f"--economy-only: the provider of {listing(models)} has no batches here, so nothing "
            "was submitted; leave --economy-only out, or choose another model"
        )
    say(
        f"warning: {_CODE} the provider of {listing(models)} has no batches here: it is called live"
    )


def _models(nodes: list[tuple[Graph, LlmNode]], settings: Settings) -> Iterator[str]:
    for graph, node in nodes:
        if model := node.model or graph.model or settings.model:
            yield from settings.models.chain(model)


def _hint_long_replies(nodes: list[tuple[Graph, str, LlmNode]], say: Callable[[str], None]) -> None:
    """Say which requests hold so much of a budget that few can wait at a time."""
    unbounded = [
        f"'{name}' of {graph.name}"
        for graph, name, node in nodes
        if graph.request_settings(node)["max_tokens"] is None
    ]
    if unbounded:
        say(
            "hint: each waiting request holds the cost of the longest reply from its budget, so "
            f"few wait at a time; set max_tokens of llm node {listing(unbounded)}"
        )
