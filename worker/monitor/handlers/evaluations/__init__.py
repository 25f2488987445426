"""Evaluations: the list, and single ones."""
