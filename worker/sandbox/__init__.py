"""The programs of agents: how they run, what they may take, and how they end."""
