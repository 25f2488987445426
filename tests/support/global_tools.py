"""Calls the shipped global tools as a worker does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sleipnir.graphs.tools.function import Function
from sleipnir.graphs.tools.reader import read_tool_file
from sleipnir.worker.tools.call import NeedsConfirmation, call_function
from sleipnir.worker.tools.context import ToolContext

SHIPPED = Path(__file__).parents[2] / "graphs/functions/tools"


def shipped(name: str) -> Function:
    """Return the function of the shipped file `name`, whatever its extension."""
    (file,) = SHIPPED.glob(f"{name}.*")
    (function,) = read_tool_file(file, own=False).functions
    return function


class GlobalTools:
    """The shipped tools with a working directory of their own, and with variables in `.env`."""

    def __init__(self, directory: Path) -> None:
        self.workdir = directory / "workdir"
        self.workdir.mkdir(parents=True)
        self._root = directory / "config"
        (self._root / "functions/tools").mkdir(parents=True)
        (directory / "agent").mkdir()
        self._agent_directory = directory / "agent"
        self._cache = directory / "cache"
        self.allow_private_addresses = False  # as the engine's setting

    def set(self, variables: Mapping[str, str]) -> None:
        """Give all tools these variables."""
        lines = [f"{name}={value}\n" for name, value in variables.items()]
        (self._root / "functions/tools/.env").write_text("".join(lines))

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        approvals: Sequence[str] = (),
        auto_confirm: bool = False,
        tool_root: Path | None = None,
    ) -> Any:
        """Return the value that a model would get, or the `NeedsConfirmation` question."""
        context = ToolContext(
            run_id="run",
            agent="agent",
            agent_directory=self._agent_directory,
            root=self._root,
            workdir=self.workdir,
            cache=self._cache,
            tool_root=tool_root,
            allow_private_addresses=self.allow_private_addresses,
            timeout_s=60,
            auto_confirm=auto_confirm,
        )
        outcome = call_function(
            shipped(name), arguments or {}, context, idempotency_key="key", approvals=approvals
        )
        return outcome if isinstance(outcome, NeedsConfirmation) else outcome.value

    def text(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> str:
        """Return the result of a call that returns text."""
        value = self.call(name, arguments, **options)
        assert isinstance(value, dict), value
        assert list(value) == ["output"], value
        return str(value["output"])

    def failure(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> str:
        """Return the message of a failed call."""
        value = self.call(name, arguments, **options)
        assert isinstance(value, dict), value
        assert "tool_call_error" in value, value
        return str(value.get("stderr", value["tool_call_error"])).strip()
