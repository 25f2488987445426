"""Runs as records, and decisions about them as pure functions. No Redis here."""
