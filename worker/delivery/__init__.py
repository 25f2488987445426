"""One visit, from its message to the next one."""
