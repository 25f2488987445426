"""Handlers of requests: pages, the API, static files."""
