"""Requests that providers answer in batches, at half price."""
