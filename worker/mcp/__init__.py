"""MCP servers: their connections, kept per worker process, and the functions made of them."""
