"""Decisions about runs of normal agents: pure, from records to records."""
