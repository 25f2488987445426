"""Schedules as people make and change them."""
