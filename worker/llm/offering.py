"""From the `tools` of a node to the functions its model may call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from graphs.schema import LlmNode
from graphs.tools.function import Function
from scheduler.errors import SecretsMissing, SecretsUnusable
from scheduler.settings import Settings
from worker.agents import UnpackedAgent
from worker.llm.toolset import Call, Offer, Toolset
from worker.tools.call import Answered, Guarded, call_function
from worker.tools.surroundings import Surroundings
from worker.visit import Visit

# A tool may print more than anybody follows; `logs` keeps the rest.
_NARRATED_LINES = 200


@dataclass(frozen=True, slots=True)
class Tools:
    """What one worker process has for calling tools; may be used from many threads at once."""

    settings: Settings
    cache: Path  # directories that tools find again on this machine

    def offer(self, agent: UnpackedAgent, visit: Visit[LlmNode]) -> Toolset:
        """The functions that a node lists: exactly these, in its order."""
        selection = agent.toolbox.select(visit.node.tools or ())
        offers = [self._of_file(function, agent, visit) for function in selection.functions]
        return Toolset({offer.name: offer for offer in offers})

    def _of_file(self, function: Function, agent: UnpackedAgent, visit: Visit[Any]) -> Offer:
        return Offer(function.declaration(), partial(self._call, function, agent, visit))

    def _call(
        self, function: Function, agent: UnpackedAgent, visit: Visit[Any], call: Call
    ) -> Answered | Guarded:
        try:
            surroundings = self._surroundings(function.name, agent, visit)
        except (SecretsMissing, SecretsUnusable) as error:
            return Answered({"tool_call_error": f"{function.name}: {error}"})
        return call_function(
            function,
            call.arguments,
            surroundings,
            idempotency_key=call.key,
            grants=call.grants,
            timeout_s=call.timeout_s,
        )

    def _surroundings(self, tool: str, agent: UnpackedAgent, visit: Visit[Any]) -> Surroundings:
        settings = self.settings
        visit.workdir.mkdir(parents=True, exist_ok=True, mode=0o700)
        return Surroundings(
            run_id=visit.run_id,
            agent=agent.directory.name,
            agent_directory=agent.directory,
            root=agent.root,
            workdir=visit.workdir,
            cache=self.cache,
            variables=visit.exported_variables(),
            secrets=visit.secrets,
            tool_env=settings.tool_env,
            tool_root=Path(settings.tool_root) if settings.tool_root else None,
            output_limit_bytes=settings.output_limit_bytes,
            timeout_s=settings.tool_timeout,
            auto_confirm=not visit.context.guarded,
            cancellation=visit.cancelled,
            narrate=_narrator(visit, tool),
            log=visit.log,
        )


def _narrator(visit: Visit[Any], tool: str) -> Callable[[str], None]:
    """Tells what a tool prints, as far as anybody would want to follow it."""
    left = iter(range(_NARRATED_LINES))

    def narrate(line: str) -> None:
        if next(left, None) is not None:
            visit.narrate("output", tool=tool, text=line)

    return narrate
