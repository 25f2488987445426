"""Limits of model calls that hold across all workers: rates, places, pauses, budgets.

rules.py   what is configured, and what `sleipnir limits --set` changed of it: plain decisions
book.py    what happens in Redis: calls reserve, settle, wait their turn
report.py  how it all stands, for people
"""
