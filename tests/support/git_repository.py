"""A git repository for a test."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

_IDENTITY = ("-c", "user.name=Test", "-c", "user.email=test@example.org")


class GitRepository:
    """Files under version control, with an identity of the test's own and no global hooks."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> None:
        command = ["git", *_IDENTITY, "-c", "core.hooksPath=/dev/null", *arguments]
        subprocess.run(command, cwd=self.directory, check=True)

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (self.directory / name).parent.mkdir(parents=True, exist_ok=True)
            (self.directory / name).write_text(text)

    def commit(self, files: Mapping[str, str]) -> None:
        """Write files and commit everything."""
        self.write(files)
        self.git("add", ".")
        self.git("commit", "-qm", "Change")
