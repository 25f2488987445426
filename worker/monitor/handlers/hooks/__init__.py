"""Hooks: pages and API."""
