"""Applies patterns and JSON Schemas of others in processes where endless checks can be stopped.

Python's regular expressions hold the interpreter lock: one bad pattern would stop a whole worker.

    checking.py   the check itself
    helper.py     the process that does it
        pool.py       calls such processes; small and harmless checks are done in place
"""

from typing import Final

DEFAULT_LIMIT_S: Final = 5.0  # CPU time per check
