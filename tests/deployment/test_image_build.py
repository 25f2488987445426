"""The steps of the Dockerfile's stage `build` give an installation that runs an agent."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.pages import ROOT

_UNCACHED = "--no-cache-dir"  # here packages need not be downloaded each time
SITE_MIB = 600  # of a Linux installation, with compiled files


def steps(dockerfile: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions of the stage `build`."""
    stage = dockerfile.partition(" AS build\n")[2].partition("\nFROM ")[0]
    joined = re.sub(r"\\\n", " ", stage)
    for line in joined.splitlines():
        instruction, _, rest = line.partition(" ")
        if instruction in ("RUN", "COPY"):
            yield instruction, rest


def copy(what: str, source: Path) -> None:
    *names, target = what.split()
    for name in names:
        where = ROOT / name
        if where.is_dir() and target == "./":
            shutil.copytree(where, source, dirs_exist_ok=True)
        elif where.is_dir():
            shutil.copytree(where, source / target, symlinks=True)
        else:
            shutil.copy(where, source)


def carry_out(root: Path) -> None:
    """Carry out the steps with `root` in place of `/`."""
    source = root / "src"
    source.mkdir(parents=True)
    (root / "bin").mkdir()
    (root / "bin" / "python").symlink_to(sys.executable)
    path = f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"
    for instruction, rest in steps((ROOT / "deploy" / "Dockerfile").read_text()):
        if instruction == "COPY":
            copy(rest, source)
            continue
        done = subprocess.run(
            ["sh", "-e", "-c", rest.replace("/opt/", f"{root}/opt/").replace(_UNCACHED, "")],
            cwd=source,
            env={**os.environ, "PATH": path, "EXTRAS": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A directory whose path is short enough for sockets."""
    with TemporaryDirectory(prefix="s", dir="/tmp") as made:
        yield Path(made)


@pytest.mark.deploy
@pytest.mark.timeout(900)
def test_what_the_image_has_runs_an_agent_with_a_read_only_root(
    tmp_path: Path, temporary: Path
) -> None:
    carry_out(tmp_path)
    installed = tmp_path / "opt" / "sleipnir"
    (packages,) = installed.glob("lib/python3*/site-packages")
    names = {entry.name.partition("-")[0] for entry in packages.glob("*.dist-info")}
    size = sum(file.stat().st_size for file in packages.rglob("*") if file.is_file())
    data = tmp_path / "data"
    data.mkdir()

    done = subprocess.run(
        [
            *("unshare", "--mount", "sh", "-e", "-c"),
            f"mount --bind {data} {data}; mount --bind {temporary} {temporary};"
            f"mount -o remount,bind,ro /; ! touch {tmp_path}/refused 2>/dev/null;"
            f"exec {installed}/bin/sleipnir run log-digest sample",
        ],
        env={
            **{name: text for name, text in os.environ.items() if name != "PYTHONPATH"},
            "SLEIPNIR_DATA_DIR": str(data),
            "SLEIPNIR_CONFIG_DIR": str(tmp_path / "config"),
            "TMPDIR": str(temporary),
            "XDG_RUNTIME_DIR": str(temporary),
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "# Log digest" in done.stdout
    assert not {"pytest", "mypy", "ruff", "playwright", "sphinx", "uv"} & names
    assert size < SITE_MIB * 2**20
