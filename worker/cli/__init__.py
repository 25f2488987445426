"""Verbs of the command line that need what workers have."""
