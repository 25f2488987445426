"""Limits of model calls that hold across all workers: rates, slots, pauses, budgets.

rules.py    the configured limits, and changes by `sleipnir limits --set`: plain decisions
records.py reservations of calls, and answers to them; used by scheduler/store/rate_limiter.py
messages.py what is said of them
"""
