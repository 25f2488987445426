"""Agents as tools of an MCP server: on HTTP in the monitor, and on standard input and output."""
