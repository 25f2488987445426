"""Verbs of the command line that need parts of the worker."""
