"""Creates the instructions of normal agents at the terminal, where their code may prompt."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.normal_agent import config_of
from sleipnir.scheduler.cli.terminal import is_terminal
from sleipnir.scheduler.runs.conversation.memory import INSTRUCTIONS

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.client.preparation import PreparedAgent
    from sleipnir.scheduler.runs.submit import Request

# The code that calls functions belongs to workers, and is imported only when needed.
_MAKER = "sleipnir.worker.agents.at_terminal"


def with_instructions(
    client: Client, prepared: PreparedAgent, reference: str, request: Request
) -> Request:
    """Return a request with the result of calling the agent's `_instructions` here.

    Unchanged without a terminal, where a worker calls the function later, and for other agents.

    Raises:
        NodeFailed: R602, the function failed or returned nothing.
    """
    config = config_of(prepared.graph)
    if config is None or not config.dynamic_instructions:
        return request
    if request.headless or not is_terminal():
        return request
    session = client.session_for(prepared, request)
    given = request.variables
    if session is not None:
        if INSTRUCTIONS in (session.state or {}):
            return request
        given = session.submitted_vars(given)
    make: Any = import_module(_MAKER).make_instructions
    workdir = Path(request.workdir or "").absolute()
    settings, search = client.store.settings, client.search
    text = make(settings, search, reference, given, workdir, request.run_id)
    return replace(request, instructions=text)
