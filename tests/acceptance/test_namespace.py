"""Everything of ours is imported as `sleipnir.…`: whatever lies beside the user stays theirs."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
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


def test_a_wheel_holds_one_package_with_every_file(tmp_path: Path) -> None:
    source = tmp_path / "source"
    files = subprocess.run(
        ["git", "ls-files", "-z", "*"], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    for name in files.rstrip("\0").split("\0"):
        if name.startswith(("tests/", "docs/")) or not (ROOT / name).exists():
            continue
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            target.symlink_to((ROOT / name).readlink())
        else:
            target.write_bytes((ROOT / name).read_bytes())

    python(source, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", "..", ".")

    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    wanted = {f"sleipnir/{name}" for name in files.split("\0") if name.startswith(FOLDERS)}
    own = ("__init__.py", "__main__.py", "errors.py", "lazy.py", "py.typed")
    wanted |= {f"sleipnir/{name}" for name in own}
    assert packed == wanted


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
    seen = {
        Path(word.rstrip(":")).resolve()
        for line in report.stderr.splitlines()
        for word in line.split()
        if word.endswith((".py", ".py:"))
    }
    programs = ("graphs/agents", "graphs/functions", "scheduler/templates", "worker/tools/wrappers")
    modules = {
        file
        for folder in FOLDERS
        for file in (ROOT / folder).rglob("*.py")
        if not str(file.relative_to(ROOT)).startswith(programs)
    }

    assert modules <= seen, sorted(modules - seen)
