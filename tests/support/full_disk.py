"""A disk without room, for one process: a limit on its files, at which writing fails."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sleipnir.scheduler.embedded.redis_server import find_server


def use_limitable_server(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have servers that are found from now on live on when their files reach a limit."""
    program = directory / "bin" / "redis-server"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntrap '' XFSZ\nexec {find_server().path} \"$@\"\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)


def fill(pid: int) -> None:
    """No room is left for the files of a server."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))


def free(pid: int) -> None:
    """There is room again."""
    no_limit = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, no_limit)


@contextmanager
def here(room_bytes: int) -> Iterator[None]:
    """For this process, while the block goes on: no file gets larger than this."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
