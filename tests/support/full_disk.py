"""Simulates a full disk for one process, by a limit on its file size."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sleipnir.scheduler.embedded.redis_server import find_server


def use_limitable_server(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make servers found from now on survive when their files reach the limit."""
    program = directory / "bin" / "redis-server"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntrap '' XFSZ\nexec {find_server().path} \"$@\"\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)


def fill(pid: int) -> None:
    """Let a server's files grow no more."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))


def free(pid: int) -> None:
    """Remove the limit."""
    no_limit = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, no_limit)


@contextmanager
def here(room_bytes: int) -> Iterator[None]:
    """Limit the size of this process's files during the block."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
