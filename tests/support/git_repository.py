"""A git repository that a test makes."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

_IDENTITY = ("-c", "user.name=Test", "-c", "user.email=test@example.org")


class GitRepository:
    """Files under version control, with the test's own identity and no hooks of anybody's."""

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
        """Write files and commit all there is."""
        self.write(files)
        self.git("add", ".")
        self.git("commit", "-qm", "Change")
