"""The programs of agents: how they run, which limits apply, and how they are ended."""
