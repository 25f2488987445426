"""Prints a file with a unified diff applied: python3 patch_file.py FILE DIFF"""

from __future__ import annotations

import sys
from pathlib import Path

from sleipnir.patch import (
    PatchFailed,
    apply_patch,
    read_patch,
)

file, diff = (Path(name) for name in sys.argv[1:])
try:
    old = file.read_bytes().decode("utf-8", "surrogateescape") if file.exists() else ""
    new = apply_patch(old, read_patch(diff.read_text("utf-8")))
except (PatchFailed, OSError) as error:
    sys.exit(f"error: cannot patch {file}: {error}")
sys.stdout.buffer.write(new.encode("utf-8", "surrogateescape"))
