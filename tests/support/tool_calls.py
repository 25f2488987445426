"""Calls functions in tool files that a test writes, in a bundle of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sleipnir.graphs.tools.function import Function
from sleipnir.graphs.tools.reader import read_tool_file
from sleipnir.worker.tools.call import Completed, NeedsConfirmation, call_function
from sleipnir.worker.tools.context import ToolContext


class ToolBundle:
    """An unpacked bundle with an agent `tester`, and everything its calls printed."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "bundle"
        self.agent = self.root / "agents" / "tester"
        self.tools = self.root / "functions" / "tools"
        for created in (self.agent, self.tools):
            created.mkdir(parents=True)
        self.narrated: list[str] = []
        self.logged: list[tuple[str, str]] = []
        self.context = ToolContext(
            run_id="run-1",
            agent="tester",
            agent_directory=self.agent,
            root=self.root,
            workdir=directory / "work",
            cache=directory / "cache",
            narrate=self.narrated.append,
            log=lambda stream, text: self.logged.append((stream, text)),
        )

    def tool(self, source: str, name: str = "demo.sh") -> Function:
        """Write a global tool file and return its only function."""
        (function,) = _functions(self.tools / name, source, own=False)
        return function

    def own(self, source: str, name: str = "tools.sh") -> dict[str, Function]:
        """Write the agent's own tools file and return its functions by name."""
        found = _functions(self.agent / name, source, own=True)
        return {function.name: function for function in found}

    def call(
        self,
        function: Function,
        arguments: Mapping[str, Any] | None = None,
        *,
        approvals: Sequence[str] = (),
        left_s: float | None = None,
        **context: Any,
    ) -> Completed | NeedsConfirmation:
        """Call a function, with some of the context replaced; the run has `left_s` left."""
        return call_function(
            function,
            arguments or {},
            replace(self.context, **context),
            idempotency_key="key-1",
            approvals=approvals,
            timeout_s=left_s,
        )

    def value(
        self, function: Function, arguments: Mapping[str, Any] | None = None, **more: Any
    ) -> Any:
        """Return what the model gets from a call."""
        answered = self.call(function, arguments, **more)
        assert isinstance(answered, Completed)
        return answered.value

    def output(self, source: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> str:
        """Return the text that a global bash tool writes as its result."""
        text: str = self.value(self.tool(source), arguments, **more)["output"]
        return text


def _functions(file: Path, source: str, *, own: bool) -> tuple[Function, ...]:
    file.write_text(source, encoding="utf-8")
    read = read_tool_file(file, own=own)
    assert read.findings == ()
    return read.functions
