"""Schedules as documents and as text."""
