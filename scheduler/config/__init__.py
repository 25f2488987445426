"""Configuration: settings, models, keys, secrets, MCP servers."""
