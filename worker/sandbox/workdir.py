"""The working directories of agents' programs."""

from __future__ import annotations

import shutil
from pathlib import Path


def workdir_of(wanted: str | None, scratch: Path, run_id: str) -> Path:
    """Return the submitter's directory if this machine has it, else a scratch one of the run."""
    if wanted is not None:
        directory = Path(wanted)
        if directory.is_dir():
            return directory
    directory = scratch / run_id
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    return directory


def forget_scratch(scratch: Path, run_id: str) -> None:
    """Remove a finished run's scratch directory from this machine."""
    shutil.rmtree(scratch / run_id, ignore_errors=True)
