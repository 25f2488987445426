"""The manual for programmers, docs/python.md, executed as written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

from tests.support.command_line import TIME_LIMIT_S, Sleipnir
from tests.support.pages import blocks


def test_the_page_of_the_python_client_is_a_program_that_runs(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path)
    for text in blocks("python.md", "yaml"):
        directory = sleipnir.project / "agents" / yaml.safe_load(text)["name"]
        directory.mkdir(parents=True)
        (directory / "graph.yaml").write_text(text)
    (sleipnir.project / "page.py").write_text("\n".join(blocks("python.md", "python")))

    done = subprocess.run(
        [sys.executable, "-X", "dev", "page.py"],
        cwd=sleipnir.project,
        env=sleipnir.environment,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "Welcome, Ada!" in done.stdout
    assert "ResourceWarning" not in done.stderr
