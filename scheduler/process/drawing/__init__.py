"""Lays out and renders drawings in processes that can be stopped.

processes.py   calls such processes
helper.py      the process
"""
