"""Intervals, paired differences and exact tests, in pure Python."""
