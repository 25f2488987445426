"""MCP servers as `mcp.json` declares them."""
