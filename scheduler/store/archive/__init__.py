"""Whole runs: read from Redis, written into it, and moved to an archive, which lists do without."""
