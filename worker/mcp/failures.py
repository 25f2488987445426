"""What goes wrong with MCP servers, in words for people and for models."""

from __future__ import annotations


class McpUnavailable(Exception):
    """A server cannot be used at all; the reason is for people."""


class McpFailed(Exception):
    """One request to a server failed; the reason is for the model."""
