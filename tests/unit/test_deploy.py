"""The files in deploy/ fit the product: units start, stop in time and know where data is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sleipnir.scheduler.config.settings import Settings
from tests.support.pages import ROOT, TEXTS

DEPLOY = ROOT / "deploy"
DOCKERFILE = re.sub(r" *\\\n *", " ", (DEPLOY / "Dockerfile").read_text())
LOCKS = [ROOT / "requirements.runtime.lock", *sorted((DEPLOY / "locks").glob("*.lock"))]
# Of the tests, the documentation and the checks; what these need comes with them.
TOOLS = ("playwright", "mypy", "uv", "ruff", "sphinx", "furo", "pytest", "hypothesis")
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_has_a_data_directory_and_time_to_stop(unit: Path) -> None:
    lines = dict(re.findall(r"^(\w+)=(.+)$", unit.read_text(), re.MULTILINE))

    # Its user may have no home directory.
    assert lines["Environment"] == "SLEIPNIR_DATA_DIR=/var/lib/" + lines["StateDirectory"]
    assert float(lines["TimeoutStopSec"]) >= Settings().drain_s + 20
    assert lines["RestartPreventExitStatus"] == "2"


def test_units_exist_for_every_process() -> None:
    assert [unit.stem for unit in UNITS] == [
        "sleipnir-monitor",
        "sleipnir-scheduler",
        "sleipnir-up",
        "sleipnir-worker",
    ]


def entries(lock: Path) -> dict[str, str]:
    """Return the entries of a lock by name: version and hashes."""
    text = re.sub(r"^ *#.*\n| ; [^\\\n]*(?= \\)", "", lock.read_text(), flags=re.MULTILINE)
    return dict(re.findall(r"^([a-z0-9-]+)(==(?:.+\\\n)*.+)\n", text, re.MULTILINE))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_the_image_has_the_versions_that_are_tested_and_no_tools(lock: Path) -> None:
    tested, installed = entries(ROOT / "requirements.lock"), entries(lock)

    assert installed.items() <= tested.items()
    assert installed.keys() & set(TOOLS) == set()


def test_the_locks_of_the_image_are_complete() -> None:
    """Whatever is in the large lock is in one of the others, or only comes with tools."""
    runtime = entries(LOCKS[0])

    assert {"celery", "redis", "litellm", "flower", "faiss-cpu"} <= runtime.keys()
    assert [lock.stem for lock in LOCKS[1:]] == ["ast", "build", "documents", "local", "sql"]
    assert all(runtime.keys().isdisjoint(entries(lock)) for lock in LOCKS[1:])


def test_what_the_image_copies_is_all_that_docker_is_sent() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    ignore = (ROOT / ".dockerignore").read_text()

    sent = re.findall(r"^!(.+)$", ignore, re.MULTILINE)

    assert sorted(sent) == sorted(name.rstrip("/") for names in copied for name in names.split())
    assert "\n*\n" in ignore
    assert all((ROOT / name).exists() for name in sent)


def test_the_slim_image_leaves_out_what_the_manual_says() -> None:
    (shown,) = re.findall(
        r"^pip uninstall -y ((?:.+\\\n)*.+)\n", TEXTS["operating.md"], re.MULTILINE
    )

    (left_out,) = re.findall(r" uninstall -y (.+)$", DOCKERFILE, re.MULTILINE)

    assert left_out.split() == shown.replace("\\\n", "").split()
