"""Health of long-running processes over HTTP, and their own figures; standard library only."""
