"""No file of the repository keeps what a merge has left behind."""

from __future__ import annotations

import re
import subprocess

from tests.support.pages import ROOT

# Markdown underlines titles with `=======`, so that the line between the two sides does not count.
CONFLICT = re.compile(rb"^(?:<{7}|>{7}|\|{7}) ", re.MULTILINE)


def test_no_file_has_marks_of_a_conflict() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = [ROOT / name for name in listed.stdout.split("\0") if name]

    marked = [file for file in files if file.is_file() and CONFLICT.search(file.read_bytes())]

    assert files
    assert marked == []
