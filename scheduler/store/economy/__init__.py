"""Requests that providers answer in batches: where they are, and the groups that are sent."""
