"""The comparison of two runs, laid out for people."""
