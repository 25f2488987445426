"""Checks that the cost of a batch can be bounded."""

from __future__ import annotations

from sleipnir.graphs.document.finding import listing
from sleipnir.scheduler.batch.models import unpriced_models
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.errors import SubmissionRefused


def require_prices(agent: PreparedAgent, client: Client) -> None:
    """Check that the price of every model that an agent calls is known.

    Raises:
        SubmissionRefused: one is not.
    """
    models = unpriced_models(agent, client.store.bundles, client.store.settings)
    if models:
        raise SubmissionRefused(
            f"--budget needs the price of every model, and that of {listing(models)} is not known, "
            "so nothing was submitted; set it in models.prices of config.yaml"
        )
