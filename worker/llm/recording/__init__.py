"""Recorded, replayed and cached model calls."""
