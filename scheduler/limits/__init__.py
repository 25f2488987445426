"""Limits of model calls that hold across all workers: rates, slots, pauses, budgets.

rules.py   what is configured, and what `sleipnir limits --set` changed of it: plain decisions
records.py what calls reserve, and what they are answered; scheduler/store/rate_limiter.py asks
report.py  how it all stands, for people
"""
