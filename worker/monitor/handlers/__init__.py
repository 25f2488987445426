"""What answers requests: pages, the API, static files."""
