"""Builds that a command starts: root runs, whose local documents the command reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.knowledge.build_graph import BUILD_GRAPH, ORDER, build_bundle
from sleipnir.graphs.knowledge.build_order import BuildOrder
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.runs.events import KB_BUILD
from sleipnir.scheduler.runs.model import Run, Status
from sleipnir.scheduler.runs.submit import Request, new_run
from sleipnir.scheduler.store.knowledge.build_files import BuildFiles
from sleipnir.worker.knowledge.errors import BuildFailed

if TYPE_CHECKING:
    from sleipnir.worker.knowledge.reading.documents import Loaded


def submit_build(client: Client, order: BuildOrder, loaded: Loaded, run_id: str) -> None:
    """Submit the run of a build.

    Args:
        loaded: the local documents.

    Raises:
        SubmissionRefused: the budget is exhausted.
        NotKept: it was stored but may be lost.
    """
    client.budget_check.require_budget(None)
    BuildFiles(client.store.client).put(order.documents, loaded.lines())
    bundle = build_bundle()
    client.store.bundles.put(bundle.digest, bundle.data)
    request = Request(run_id=run_id, state={ORDER: order.to_json()}, headless=True)
    name = f"{KB_BUILD} {order.agent} {order.node}"
    run = new_run(BUILD_GRAPH, bundle.digest, request, agent=name, agents={})
    client.store.runs.submit(run)
    client.keep([run_id])


def result_of(run: Run) -> dict[str, Any]:
    """Return the result of a finished build: address, files, chunks, dimension, warnings.

    Raises:
        BuildFailed: it did not succeed.
    """
    if run.status == Status.SUCCEEDED and run.output is not None:
        found: dict[str, Any] = json.loads(run.output)
        return found
    if run.failure is not None:
        raise BuildFailed(run.failure.message)
    raise BuildFailed(f"the build was {run.status.replace('_', ' ')} (run {run.run_id})")
