"""Hooks as documents."""
