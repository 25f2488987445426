"""Hands the next message of a queue to the thread whose commit has enqueued it.

A message otherwise goes through Redis, the event loop and another thread before its visit begins,
which costs about as much as the visit.
"""

from __future__ import annotations

from threading import local


class Handover(local):
    """Of the current thread."""

    queues = ""  # those whose next message it would take, separated by blanks; "": it would not
    message: str | None = None  # that one, as the broker has it


handover = Handover()
