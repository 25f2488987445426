"""What can go wrong with an agent, before it runs and while it runs.

GraphError, a SleipnirError
├── InvalidAgent        the agent's files contain errors
├── AgentNotFound       no agent of that name, or at that path
│   └── AmbiguousAgent  `./agents` has an agent of that name, and so has `other`
├── MissingVariables    variables without a value and without a default
├── BundleError         an agent directory cannot be packed, or a bundle cannot be unpacked
├── MissingReference    a strict template refers to values that do not exist
├── TextTooLong         a template renders to a longer text than allowed
├── NodeFailed          a visit failed for good
└── NoFonts             this machine has no fonts (graphs.drawing.png)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sleipnir.errors import SleipnirError
from sleipnir.graphs.document.finding import Finding, folded


class GraphError(SleipnirError):
    """Something is wrong with an agent; base of the errors of sleipnir.graphs."""


class InvalidAgent(GraphError):
    """The agent's files contain errors; nothing was run."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(str(finding) for finding in folded(self.findings)))


class AgentNotFound(GraphError):
    """No agent of that name, or at that path."""

    def __init__(self, reference: str, searched: Sequence[str], near: Sequence[str] = ()) -> None:
        self.reference = reference
        self.searched = tuple(searched)
        self.near = tuple(near)
        message = f"no agent named '{reference}'"
        if near:
            message += f"; did you mean {' or '.join(repr(name) for name in near)}?"
        if searched:
            message += f" (searched: {', '.join(searched)})"
        super().__init__(message)


class AmbiguousAgent(AgentNotFound):
    """`./agents` has an agent of that name, and so has `other`: only a person can say which."""

    def __init__(self, reference: str, here: Path, other: Path) -> None:
        self.reference = reference
        self.searched = (str(here), str(other))
        self.near = ()
        GraphError.__init__(
            self,
            f"'{reference}' is the name of two agents: {here} and {other}; name one of them by its "
            f"path, or its directory by --agents-dir; or list {here} in trusted-agents in the "
            "configuration directory",
        )


class MissingVariables(GraphError):
    """Variables without a value and without a default; `names` lists all of them."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        super().__init__("\n".join(finding.message for finding in self.findings))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """One E215 per name, without a position, as nothing in a file is wrong."""
        return tuple(
            Finding("E215", f"variable '{name}' has no value: pass one or give a default")
            for name in self.names
        )


class BundleError(GraphError):
    """An agent directory cannot be packed, or a bundle cannot be unpacked."""


class MissingReference(GraphError):
    """A strict template refers to values that do not exist; `references` lists all of them."""

    def __init__(self, references: Sequence[str]) -> None:
        self.references = tuple(references)
        names = ", ".join(f"'{name}'" for name in self.references)
        super().__init__(f"nothing in the state for {names}")


class TextTooLong(GraphError):
    """A template renders to a longer text than allowed; `limit` is in characters."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"a template renders to more than {limit} characters")


class NodeFailed(GraphError):
    """A visit failed for good; `code` is one of the run-time codes R001 to R023.

    `usage` is what the visit had used by then, as an object of the engine's; `caused_by` are
    failures before this one that the run knows nothing of, as JSON.
    """

    def __init__(
        self, code: str, message: str, usage: Any = None, caused_by: Sequence[Any] = ()
    ) -> None:
        self.code = code
        self.message = message
        self.usage = usage
        self.caused_by = caused_by
        super().__init__(f"{code}: {message}")
