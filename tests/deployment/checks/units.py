"""What is wrong with the units of systemd."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from sleipnir.scheduler.cli.app import VERBS
from sleipnir.scheduler.config.settings import FIELDS, PREFIX, Settings

WORKER, OF_QUEUE = "sleipnir-worker", "sleipnir-worker@"
UNITS = ("sleipnir-monitor", "sleipnir-scheduler", "sleipnir-up", WORKER, OF_QUEUE)
# The embedded engine is used by commands outside of its unit, and does not notify.
_EMBEDDED = "sleipnir-up"
_CONFIG = "/etc/sleipnir"
_MOST_EXPOSED = {"sleipnir-monitor": 4.5, "sleipnir-scheduler": 4.5, "sleipnir-worker": 6.0}


def complaints(deploy: Path) -> Iterator[str]:
    """Yield what is wrong, unit by unit."""
    units = sorted((deploy / "systemd").glob("*.service"))
    if tuple(unit.stem for unit in units) != UNITS:
        yield f"there is not a unit for every process: {[unit.stem for unit in units]}"
    if _of_queue(deploy / "systemd" / f"{WORKER}.service") != (
        (deploy / "systemd" / f"{OF_QUEUE}.service").read_text()
    ):
        yield "the unit of a queue's worker is not that of a worker with a queue"
    users = (deploy / "systemd" / "sysusers.d" / "sleipnir.conf").read_text()
    (user,) = re.findall(r"^u (\S+)", users, re.MULTILINE)
    yield from _of_configuration(deploy / "systemd" / "tmpfiles.d" / "sleipnir.conf", user)
    yield from _of_example(deploy / "systemd" / "environment.example")
    for unit in units:
        text = unit.read_text()
        lines = dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
        variables = dict(re.findall(r"^Environment=(\w+)=(.*)$", text, re.MULTILINE))
        for complaint in (
            *_of_lines(unit.stem, lines, user),
            *_of_variables(unit.stem, lines, variables),
            *_of_systemd(unit),
        ):
            yield f"{unit.name}: {complaint}"


def _of_queue(worker: Path) -> str:
    """Return the unit of a queue's worker, as it follows from that of a worker."""
    text = re.sub(r"^(Description=.*)$", r"\1 of queue %i", worker.read_text(), flags=re.MULTILINE)
    return re.sub(r"^(ExecStart=.*)$", r"\1 --queues %i", text, flags=re.MULTILINE)


def _of_configuration(tmpfiles: Path, user: str) -> Iterator[str]:
    """Yield who can read what is in /etc/sleipnir, and should not, or cannot, and should."""
    lines = re.findall(r"^([df]) (\S+) (\d+) (\S+) (\S+)$", tmpfiles.read_text(), re.MULTILINE)
    for kind, path, mode, owner, group in lines:
        if kind == "d" and (path, mode, owner, group) != (_CONFIG, "0750", "root", user):
            yield f"{user} cannot read certificates and keys in {path}, or others can"
        if kind == "f" and (mode, owner) != ("0600", "root"):
            yield f"agents could read {path}"


def _of_example(example: Path) -> Iterator[str]:
    """Yield what an example of /etc/sleipnir/environment sets, and nobody reads."""
    known = {field.upper() for field in FIELDS}
    for name in re.findall(rf"^(?:# )?{PREFIX}(\w+)=", example.read_text(), re.MULTILINE):
        if name not in known:
            yield f"{example.name}: there is no setting {PREFIX}{name}"


def _of_variables(name: str, lines: dict[str, str], variables: dict[str, str]) -> Iterator[str]:
    # Its user may have no home directory.
    if variables.get("SLEIPNIR_DATA_DIR") != f"/var/lib/{lines.get('StateDirectory')}":
        yield "its data directory is not its StateDirectory"
    if variables.get("SLEIPNIR_CONFIG_DIR") != _CONFIG:
        yield f"it does not read {_CONFIG}/config.yaml"
    credential, _, _ = lines.get("LoadCredential", "").partition(":")
    if name != _EMBEDDED and variables.get("SLEIPNIR_REDIS_URL_FILE") != f"%d/{credential}":
        yield "it does not read the URL of Redis from its credential"


def _of_lines(name: str, lines: dict[str, str], user: str) -> Iterator[str]:
    if float(lines.get("TimeoutStopSec", 0)) < Settings().drain_s + 20:
        yield "it has too little time to stop"
    # A drained worker ends with 0.
    prevented = "0 2" if name in (WORKER, OF_QUEUE) else "2"
    if lines.get("RestartPreventExitStatus") != prevented:
        yield "it is restarted though it is configured wrongly, or was drained"
    if lines.get("User") != user:
        yield f"sysusers.d makes the user {user}, not {lines.get('User')}"
    program, _, verb = lines.get("ExecStart", "").partition(" ")
    if program != "/opt/sleipnir/bin/sleipnir" or verb.split()[:1] != [
        name.partition("-")[2].rstrip("@")
    ]:
        yield f"it does not start its process: {program} {verb}"
    if verb.split()[:1] and verb.split()[0] not in VERBS:
        yield f"there is no command {verb}"
    if name != _EMBEDDED and (lines.get("Type"), lines.get("WatchdogSec")) != ("notify", "60"):
        yield "systemd does not hear whether it lives"


def _of_systemd(unit: Path) -> Iterator[str]:
    for ignored in ignored_by_systemd(unit):
        yield f"systemd ignores a line: {ignored}"
    exposure = re.search(r"exposure level for \S+: ([\d.]+)", _analyse(unit).stdout)
    if exposure and float(exposure[1]) > _MOST_EXPOSED.get(unit.stem, 10):
        yield f"it may do too much: its exposure is {exposure[1]}"


def ignored_by_systemd(unit: Path) -> list[str]:
    """Return what systemd does not understand in a unit and its drop-ins."""
    said = _analyse(unit).stderr.splitlines()
    return [line for line in said if "ignoring" in line.lower() or "fail" in line.lower()]


@cache
def _analyse(unit: Path) -> subprocess.CompletedProcess[str]:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return subprocess.CompletedProcess([], 0, "", "")
    command = [analyze, "security", "--offline=yes", str(unit)]
    return subprocess.run(command, capture_output=True, text=True, check=False)
