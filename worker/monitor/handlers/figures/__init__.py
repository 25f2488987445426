"""Pages and answers about figures over time."""
