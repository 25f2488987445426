"""What people configure: settings, models, keys, secrets, MCP servers."""
