"""Prometheus' own checker of alert rules, installed or taken from Debian's package."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def find_promtool(directory: Path) -> Path:
    """Return the program, in `directory` if it had to be fetched.

    Without one the test is skipped, or fails on CI.
    """
    if installed := shutil.which("promtool"):
        return Path(installed)
    for command in ("apt-get download -q prometheus", "dpkg-deb -x prometheus_*.deb ."):
        done = subprocess.run(
            command, shell=True, cwd=directory, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            give_up = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
            give_up(f"promtool is missing (apt-get install prometheus): {done.stderr[-200:]}")
    return directory / "usr" / "bin" / "promtool"
