"""Calls of functions in tool files: one process per call."""
