"""Agents as blobs: what travels to the workers that run them."""
