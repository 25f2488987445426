"""Checks of an installation and of everything that is stored."""
