"""Triggers: pages, API, and the address that fires them."""
