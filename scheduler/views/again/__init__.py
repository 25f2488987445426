"""What retries repeat, from each step on, and what that has cost."""
