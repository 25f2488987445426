"""Patterns and JSON Schemas that others wrote, applied where a check without end can be ended.

Python's regular expressions hold the interpreter: one bad pattern would stop a whole worker.

    checking.py   the check itself
    helper.py     the process that does it
    pool.py       asks such processes; small and harmless checks are done on the spot
"""

from typing import Final

DEFAULT_LIMIT_S: Final = 5.0  # of processor time, for one check
