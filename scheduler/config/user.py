"""Who runs this process."""

from __future__ import annotations

import getpass
import os


def user_name() -> str:
    """Return the user's name; their number where the machine knows none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
