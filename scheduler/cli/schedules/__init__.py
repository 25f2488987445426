"""Parts of `sleipnir schedule`."""
