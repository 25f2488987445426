"""Spans of visits, and of what visits call."""
