"""Finished runs in a directory of files: exported from one Redis, imported into another."""
