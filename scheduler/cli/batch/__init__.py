"""Parts of `sleipnir batch`: its input, and whether its agent has changed."""
