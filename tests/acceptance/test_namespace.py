"""Everything of ours is imported as `sleipnir.…`: whatever lies beside the user stays theirs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("graphs", "scheduler", "worker")


@pytest.fixture
def crowded(tmp_path: Path) -> Path:
    """A directory with modules and packages of the names of our folders."""
    for name in FOLDERS:
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name}.py of the user ran')\n")
    (tmp_path / "graphs").mkdir()
    (tmp_path / "graphs" / "__init__.py").write_text("raise SystemExit('graphs/ ran')\n")
    return tmp_path


def python(directory: Path, *arguments: str) -> str:
    """What a Python that was started in `directory` prints."""
    environment = os.environ | {"SLEIPNIR_DATA_DIR": str(directory / "data")}
    process = subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.parametrize("search_path", ["", "."])
def test_a_crowded_directory_harms_no_command(crowded: Path, search_path: str) -> None:
    if not search_path:  # with it, nobody could tell these from the libraries
        (crowded / "celery.py").write_text("raise SystemExit('celery.py of the user ran')\n")
    (crowded / "echo").mkdir()
    (crowded / "echo" / "graph.yaml").write_text(
        "name: echo\nstart: done\nnodes: {done: {type: end, output: '{{initial_prompt}}'}}\n"
    )

    printed = subprocess.run(
        [Path(sys.executable).with_name("sleipnir"), "run", "./echo", "hello"],
        cwd=crowded,
        env=os.environ | {"SLEIPNIR_DATA_DIR": str(crowded / "data"), "PYTHONPATH": search_path},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert (printed.returncode, printed.stdout) == (0, "hello\n"), printed.stderr


def test_a_script_beside_files_of_these_names_imports_the_client(crowded: Path) -> None:
    (crowded / "script.py").write_text(
        "from sleipnir import AsyncClient, Client, Request, SleipnirError, tool\n"
        "names = (AsyncClient, Client, Request, SleipnirError, tool.guard)\n"
        "print(*(each.__name__ for each in names))\n"
    )

    assert python(crowded, "script.py") == "AsyncClient Client Request SleipnirError guard\n"


def test_the_module_is_the_command(tmp_path: Path) -> None:
    assert "graph agents" in python(tmp_path, "-m", "sleipnir", "--help")


def test_types_are_checked_in_every_module() -> None:
    """mypy takes a folder that it cannot see for an empty one, and says nothing."""
    report = subprocess.run(
        [sys.executable, "-m", "mypy", "-v"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    # What it found, whether it had to read it once more or knew it from last time.
    seen = {Path(name).resolve() for name in re.findall(r"[^\s'\":]+\.py\b", report.stderr)}
    programs = (
        "graphs/agents",
        "graphs/functions",
        "scheduler/cli/templates",
        "worker/tools/wrappers",
    )
    modules = {
        file
        for folder in FOLDERS
        for file in (ROOT / folder).rglob("*.py")
        if not str(file.relative_to(ROOT)).startswith(programs)
    }

    assert modules <= seen, sorted(modules - seen)
