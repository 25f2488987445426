"""Calls of functions of tool files: one call, one process."""
