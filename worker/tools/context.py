"""What all calls of one visit have in common."""

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
    """Where tools run, what they may know, and who hears of them. All paths are absolute."""

    run_id: str
    agent: str  # empty: no agent calls
    agent_directory: Path
    root: Path  # the unpacked bundle, laid out like a config directory
    workdir: Path
    cache: Path  # of this machine; each tool gets a directory in it
    variables: Mapping[str, str] = field(default_factory=dict)  # of the agent
    secrets: tuple[str, ...] = ()  # values that nobody may see
    tool_env: tuple[str, ...] = ()  # more of the worker's variables that tools may see
    tool_root: Path | None = None  # the shipped tools leave it alone outside of this
    allow_private_addresses: bool = False  # the shipped tools may reach them
    output_limit_bytes: int = 8 * 1024 * 1024  # of a stream, and of a result
    timeout_s: float = 1800.0  # of one call; 0: none
    limits: ProgramLimits = NO_LIMITS
    auto_confirm: bool = False
    cancellation: Cancellation = field(default_factory=Cancellation)
    narrate: Callable[[str], None] = lambda _line: None  # a masked line of a tool's stdout
    log: Callable[[str, str], None] = lambda _stream, _text: None  # kept for `logs`

    def under(self, settings: Settings) -> ToolContext:
        """The same, with all that the engine's settings say about calls."""
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
        """The directory a function belongs to: its agent's, or the one of all global tools."""
        return self.agent_directory if function.own else self.root / "functions" / "tools"

    def cache_of(self, function: Function) -> Path:
        """The writable directory that a function finds again on this machine."""
        if function.own:
            return self.cache / "agents" / self.agent
        return self.cache / "tools" / function.name

    def limit_s(self, left_s: float | None) -> float | None:
        """How long a call may take when its run has that much left; None: no limit."""
        limits = [limit for limit in (self.timeout_s or None, left_s) if limit is not None]
        return min(limits) if limits else None
