"""Limits of model calls that hold across all workers: rates, slots, pauses, budgets.

rules.py   what is configured, and what `sleipnir limits --set` changed of it: plain decisions
limiter.py what happens in Redis: calls reserve, release, wait their turn
report.py  how it all stands, for people
"""
