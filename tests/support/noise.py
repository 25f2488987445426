"""Texts that hardly shrink when they are compressed, as those of models and scripts do not."""

from __future__ import annotations

import random
import string


def noise(length: int, seed: int) -> str:
    """Return a text of so many letters and digits, the same for the same seed."""
    return "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=length))
