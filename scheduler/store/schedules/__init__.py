"""Schedules in Redis: their transitions, and reading them."""
