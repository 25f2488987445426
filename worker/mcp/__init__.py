"""MCP servers: connections kept per worker process, and the functions made of their tools."""
