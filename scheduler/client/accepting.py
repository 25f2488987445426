"""Accepts runs: the first step of each, whoever submits it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sleipnir.scheduler.errors import NotOver

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.client.preparation import PreparedAgent
    from sleipnir.scheduler.runs.submit import Request


def accept(
    client: Client, agent: PreparedAgent, request: Request, *, keep: bool = True
) -> tuple[str, bool]:
    """Accept a run as `Client.submit` does; return its id, and whether it is new."""
    is_new: bool | None = None
    while is_new is None:
        run = client.new_run(agent, request)
        if run.batch is not None and run.webhook is not None:
            client.store.batches.note_webhook(run.batch, run.webhook)
        client.budget_check.require_budget(run.batch)
        with suppress(NotOver):  # the session was continued meanwhile
            is_new = client.store.runs.submit(run)
    if keep:
        client.keep([run.run_id])
    return run.run_id, is_new
