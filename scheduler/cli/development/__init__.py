"""What `sleipnir dev` does: watch an agent's files, and run again what a save has changed."""
