"""The Celery app, and how its messages reach visits."""
