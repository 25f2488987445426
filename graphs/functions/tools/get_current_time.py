"""Tells the time."""

import time


def run() -> str:
    """Get the current date and local time, with the weekday and the time zone."""
    return time.strftime("%A, %Y-%m-%d %H:%M:%S %Z (UTC%z)")
