"""`sleipnir bench`: what a node costs on this machine, beside bare Celery in the same minutes."""
