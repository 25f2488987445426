"""Has documents read on the submitting machine if workers cannot read them.

The code that reads them runs commands and belongs to the worker. It is located by name, as verbs
are, so nothing here imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from sleipnir.graphs.bundles.archive import Part
from sleipnir.graphs.document.loader import Agent
from sleipnir.graphs.knowledge.bases import bases_of
from sleipnir.graphs.knowledge.plan import KnowledgePlan, documents_file
from sleipnir.scheduler.client.knowledge.plans import ChooseBuild
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.errors import SleipnirError

_READER = "sleipnir.worker.knowledge.reading.taken_along"


def bundle_documents(
    agent: Agent,
    plans: Mapping[str, KnowledgePlan],
    settings: Settings,
    choose: ChooseBuild | None,
    scratch: Path,
) -> tuple[dict[str, KnowledgePlan], list[Part]]:
    """Read the documents of an agent's unbuilt knowledge bases that workers could not read.

    Args:
        choose: asks about unreadable documents; None: nobody is asked.
        scratch: an empty directory to write them to.

    Returns:
        The plans, and additional parts of the bundle.

    Raises:
        SleipnirError: documents cannot be read, and nobody agreed to do without them.
    """
    found, parts = dict(plans), []
    for base in bases_of(agent):
        plan = plans.get(base.node_id)
        if plan is None or plan.address is not None:
            continue
        read_ahead: Any = import_module(_READER).read_ahead
        asks = None if choose is None else partial(choose.leaves_out, agent.name, base)
        file = scratch / f"{base.node_id}.jsonl"
        try:
            without = read_ahead(agent.directory, base.documents, settings, file, asks)
        except SleipnirError as error:
            where = f"agent '{agent.name}', knowledge base '{base.node_id}'"
            raise SleipnirError(f"{where}: {error}") from error
        found[base.node_id] = replace(plan, without=without)
        if file.exists():
            parts.append(Part(documents_file(base.node_id), file))
    return found, parts
