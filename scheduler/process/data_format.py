"""The version of the data in Redis; that of other versions is refused, never guessed at."""

from __future__ import annotations

from typing import Final

# Incremented with every change that makes older keys unreadable.
DATA_FORMAT: Final = 8
