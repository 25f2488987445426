"""Hooks as people make, change and try them."""
