"""The text of one tool file, and the findings of its reader."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Any

from sleipnir.graphs.document.finding import Finding, printable
from sleipnir.graphs.tools.function import BashDetails, Function
from sleipnir.records import dataclass

INSTRUCTIONS = "_instructions"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One property of a function's schema."""

    name: str
    schema: dict[str, Any]
    required: bool = False
    description: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """A tool file while it is read; its reader adds the findings."""

    path: Path
    text: str
    own: bool  # belongs to an agent, not a global tool
    findings: list[Finding] = field(default_factory=list)

    def report(self, code: str, message: str, line: int) -> None:
        """Add a finding about a line."""
        message = printable(message)
        self.findings.append(Finding(code, message, file=str(self.path), line=line))

    def function(
        self,
        name: str,
        entry: str,
        line: int,
        description: str,
        parameters: list[Parameter],
        bash: BashDetails,
    ) -> Function:
        """Return the function as a model sees it."""
        properties = {}
        for parameter in parameters:
            text = {"description": parameter.description} if parameter.description else {}
            properties[parameter.name] = {**parameter.schema, **text}
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if required := [parameter.name for parameter in parameters if parameter.required]:
            schema["required"] = required
        return Function(name, description, schema, self.path, line, entry, self.own, bash)
