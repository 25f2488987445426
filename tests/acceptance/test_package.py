"""What is published: a source archive, the wheel that is built from it, and what both say."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("graphs", "scheduler", "worker")
OWN = (
    *("__init__.py", "__main__.py", "errors.py", "lazy.py", "py.typed", "records.py"),
    "sbom.cdx.json",
)
BUILD_SOURCES = "from setuptools import build_meta as b; b.build_sdist('..')"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with both, made of the files of the repository."""
    directory = tmp_path_factory.mktemp("package")
    _copy_sources(directory / "source")
    _python(directory / "source", "-c", BUILD_SOURCES)
    (sources,) = directory.glob("*.tar.gz")
    options = ("-q", "--no-index", "--no-deps", "--no-build-isolation", "-w", ".")
    _python(directory, "-m", "pip", "wheel", *options, str(sources))
    return directory


def _repository() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*"], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    return [name for name in listed.rstrip("\0").split("\0") if (ROOT / name).exists()]


def _copy_sources(target: Path) -> None:
    for name in _repository():
        if name.startswith(("tests/", "docs/")):
            continue
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            copy.symlink_to((ROOT / name).readlink())
        else:
            copy.write_bytes((ROOT / name).read_bytes())


def _python(directory: Path, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _wheel(built: Path) -> zipfile.ZipFile:
    (wheel,) = built.glob("*.whl")
    return zipfile.ZipFile(wheel)


def _metadata(built: Path) -> Message:
    with _wheel(built) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_string(archive.read(name).decode())


def test_a_wheel_holds_one_package_with_every_file(built: Path) -> None:
    with _wheel(built) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}

    wanted = {f"sleipnir/{name}" for name in _repository() if name.startswith(FOLDERS)}
    assert packed == wanted | {f"sleipnir/{name}" for name in OWN}


def test_a_wheel_says_what_it_is(built: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    said = _metadata(built)

    assert (said["Name"], said["Version"]) == ("sleipnir", project["version"])
    assert said["Summary"] == project["description"]
    assert said["License-Expression"] == "Apache-2.0"
    assert said["Requires-Python"] == ">=3.11"
    assert said["Description-Content-Type"] == "text/markdown"
    assert said.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")
    assert said["Keywords"].split(",") == project["keywords"]
    assert said.get_all("Classifier") == project["classifiers"]
    assert "Typing :: Typed" in project["classifiers"]
    required = {re.split(r"[^\w.-]", text)[0] for text in said.get_all("Requires-Dist") or ()}
    assert {"celery", "redis", "pydantic", "litellm", "faiss-cpu", "flower"} <= required
    assert said.get_all("Provides-Extra") == list(project["optional-dependencies"])


def test_a_wheel_brings_the_command_and_its_license(built: Path) -> None:
    with _wheel(built) as archive:
        own = {Path(name).name: name for name in archive.namelist() if ".dist-info/" in name}
        entry_points = archive.read(own["entry_points.txt"]).decode()
        license_text = archive.read(own["LICENSE"])

    assert "sleipnir = sleipnir.scheduler.cli.app:main" in entry_points
    assert license_text == (ROOT / "LICENSE").read_bytes()


def test_a_source_archive_is_enough_to_build_from(built: Path) -> None:
    (sources,) = built.glob("*.tar.gz")
    with tarfile.open(sources) as archive:
        members = {member.name.partition("/")[2]: member for member in archive.getmembers()}

    assert {"LICENSE", "README.md", "pyproject.toml", "PKG-INFO"} <= members.keys()
    assert not [name for name, member in members.items() if member.issym() or member.islnk()]
