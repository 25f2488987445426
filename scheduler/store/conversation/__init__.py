"""Interaction between runs of normal agents: child runs, messages, escalated questions."""
