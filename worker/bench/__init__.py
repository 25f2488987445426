"""`sleipnir bench`: what a node costs on this machine, compared with bare Celery alternately."""
