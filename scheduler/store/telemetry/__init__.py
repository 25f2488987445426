"""Spans of what transitions end: runs, visits without a commit, and waits for people."""
