"""Parts of `sleipnir hook`."""
