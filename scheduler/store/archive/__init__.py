"""Whole runs: read from Redis, and written into it."""
