"""Tabs of a run's page."""
