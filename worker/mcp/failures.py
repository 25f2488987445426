"""Failures of MCP servers, in words for people and for models."""

from __future__ import annotations

from sleipnir.graphs.document.finding import cut

_LONGEST = 2_000  # characters, as texts of servers and the SDK can be of any length


class McpUnavailable(Exception):
    """A server cannot be used at all; the reason, one line, is for people."""

    def __init__(self, reason: str) -> None:
        super().__init__(one_line(reason))


class McpFailed(Exception):
    """One request to a server failed; the reason, one line, is for the model."""

    def __init__(self, reason: str) -> None:
        super().__init__(one_line(reason))


def one_line(reason: str) -> str:
    """Return a text of a server as one line of limited length."""
    return cut(" ".join(reason.split()) or "no reason was given", _LONGEST)
