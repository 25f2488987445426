"""Schedules: which instants start runs of an agent, and what becomes of those that cannot."""
