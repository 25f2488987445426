"""What all tool calls of one visit have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path

from sleipnir.graphs.tools.function import Function
from sleipnir.records import dataclass
from sleipnir.scheduler.config.settings import Settings
from sleipnir.worker.sandbox.limits import NO_LIMITS, ProgramLimits
from sleipnir.worker.visit.cancellation import Cancellation


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Where tools run, and what they may know and report. All paths are absolute."""

    run_id: str
    agent: str  # empty if no agent makes the call
    agent_directory: Path
    root: Path  # the unpacked bundle, laid out as a configuration directory
    workdir: Path
    cache: Path  # on this machine; each tool gets a directory in it
    variables: Mapping[str, str] = field(default_factory=dict)  # of the agent
    secrets: tuple[str, ...] = ()  # values that nobody may see
    tool_env: tuple[str, ...] = ()  # additional variables of the worker's that tools may see
    tool_root: Path | None = None  # the only directory in which the shipped tools change files
    allow_private_addresses: bool = False  # for the shipped tools
    output_limit_bytes: int = 8 * 1024 * 1024  # for each stream, and for the result
    timeout_s: float = 1800.0  # for one call; 0: unlimited
    limits: ProgramLimits = NO_LIMITS
    auto_confirm: bool = False
    cancellation: Cancellation = field(default_factory=Cancellation)
    narrate: Callable[[str], None] = lambda _line: None  # gets masked lines of a tool's stdout
    log: Callable[[str, str], None] = lambda _stream, _text: None  # keeps texts for `logs`

    def under(self, settings: Settings) -> ToolContext:
        """Return a copy with everything that the settings say about calls."""
        return replace(
            self,
            tool_env=settings.tool_env,
            tool_root=Path(settings.tool_root) if settings.tool_root else None,
            allow_private_addresses=settings.allow_private_addresses,
            output_limit_bytes=settings.output_limit_bytes,
            timeout_s=settings.tool_timeout,
            limits=ProgramLimits.of(settings),
        )

    def home_of(self, function: Function) -> Path:
        """Return a function's home directory: its agent's, or that of all global tools."""
        return self.agent_directory if function.own else self.root / "functions" / "tools"

    def cache_of(self, function: Function) -> Path:
        """Return the writable directory that a function finds again on this machine."""
        if function.own:
            return self.cache / "agents" / self.agent
        return self.cache / "tools" / function.name

    def limit_s(self, left_s: float | None) -> float | None:
        """Return how long a call may take if its run has that much time left; None: unlimited."""
        limits = [limit for limit in (self.timeout_s or None, left_s) if limit is not None]
        return min(limits) if limits else None
