"""Hooks in Redis: what they are, what they have yet to be told, and what became of it."""
