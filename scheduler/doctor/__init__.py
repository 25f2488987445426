"""Checks of an installation, and of the consistency of everything stored."""
