"""Makes a normal agent's instructions where a person can be asked at the terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from sleipnir.graphs.document.loader import load_agent
from sleipnir.graphs.document.references import AgentSearch
from sleipnir.scheduler.config.settings import Settings
from sleipnir.worker.agents.prompt import text_of_instructions
from sleipnir.worker.tools.call import call_at_terminal
from sleipnir.worker.tools.manual_call import Workbench


def make_instructions(
    settings: Settings,
    search: AgentSearch,
    reference: str,
    given: Mapping[str, str],
    workdir: Path,
    run_id: str | None,
) -> str:
    """Call the agent's `_instructions` in this process, with its terminal, and return the text.

    Args:
        reference: names the agent, which has that function.
        given: values of its variables.
        workdir: where the function runs; absolute.
        run_id: of the run to be submitted; None: any.

    Raises:
        NodeFailed: R602, it failed or returned nothing.
        BundleError, SecretsMissing, SecretsUnusable: it cannot be called here.
    """
    bench = Workbench(load_agent(search.find(reference), os.environ), settings, search)
    with bench.calls(given, workdir) as calls:
        assert calls.instructions is not None, "validated before"
        context = replace(calls.context, run_id=run_id or calls.context.run_id)
        outcome = call_at_terminal(calls.instructions, context, idempotency_key=context.run_id)
        return text_of_instructions(outcome)
