"""The user that runs this process."""

from __future__ import annotations

import getpass
import os


def user_name() -> str:
    """Return the user's name, or number if the machine does not know the name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
