"""Models that are called live although a command says --economy."""

from __future__ import annotations

from collections.abc import Callable

from sleipnir.graphs.document.finding import listing
from sleipnir.graphs.schema import LlmNode
from sleipnir.scheduler.batch.models import graphs_of
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.config.economy import has_batches
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.store.bundles import Bundles

_CODE = "W033"


def models_without_batches(agent: PreparedAgent, bundles: Bundles, settings: Settings) -> list[str]:
    """Return the models of llm nodes whose providers have no batches here."""
    found = dict.fromkeys(
        settings.models.chain(model)[0]
        for graph in graphs_of(agent, bundles)
        for _, node in graph.nodes_of(LlmNode)
        if (model := node.model or graph.model or settings.model)
    )
    return [model for model in found if not has_batches(model.partition(":")[0], settings.models)]


def warn_of_live_calls(
    agent: PreparedAgent,
    bundles: Bundles,
    settings: Settings,
    say: Callable[[str], None],
    *,
    only: bool,
) -> None:
    """Say once which models are called live (W033).

    Args:
        only: whether calls may never be live.

    Raises:
        SubmissionRefused: some would be, and may not.
    """
    models = models_without_batches(agent, bundles, settings)
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
