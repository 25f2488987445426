"""What commands and the embedded engine share: files, locks, requests and answers.

Standard library only: the start of every command waits for it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path

from sleipnir.records import dataclass
from sleipnir.scheduler.errors import EngineUnreachable

# How long a draining engine, or a Redis that loads its data, may need.
MAX_WAIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Engine:
    """A running engine: its process, its Redis and its log."""

    pid: int
    redis_url: str  # for Redis clients
    broker_url: str  # the same server, for Celery
    log_file: Path


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """What a command needs from the engine; with `workers` 0 only Redis."""

    workers: int
    concurrency: int
    drain_s: float
    # Workers get the environment of the command that asked for them, API keys included.
    environment: Mapping[str, str]
    verbosity: int = 0  # of the workers' log


@dataclass(frozen=True, slots=True)
class Place:
    """The files of one data directory's engine."""

    data_dir: Path

    @classmethod
    def of(cls, data_dir: Path) -> Place:
        """Create the directory, or check that it is ours.

        Raises:
            EngineUnreachable: it cannot be used.
        """
        try:
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            owner = data_dir.stat().st_uid
            if not os.access(data_dir, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, "it is not writable")
        except OSError as error:
            raise EngineUnreachable(
                f"cannot use the data directory {data_dir}: {error.strerror}; "
                "set SLEIPNIR_DATA_DIR to one that you can write to"
            ) from error
        if owner != os.geteuid():
            raise EngineUnreachable(
                f"the data directory {data_dir} belongs to user id {owner}, you are "
                f"{os.geteuid()}; run as that user, or set SLEIPNIR_DATA_DIR to your own"
            )
        return cls(data_dir.resolve())

    @property
    def engine_lock(self) -> Path:
        """Locked by the engine while it runs; contains its process and addresses."""
        return self.data_dir / "engine.lock"

    @property
    def start_lock(self) -> Path:
        """Locked while a command joins or starts the engine, so that only one is started."""
        return self.data_dir / "start.lock"

    @property
    def redis_lock(self) -> Path:
        """Locked by the engine and its server together: never two servers on one data set."""
        return self.data_dir / "redis.lock"

    @property
    def log_file(self) -> Path:
        """The output of a background engine and its children since its start."""
        return self.data_dir / "engine.log"

    @property
    def redis_directory(self) -> Path:
        """The server's data directory."""
        return self.data_dir / "redis"

    @property
    def loss_note(self) -> Path:
        """Contains why data may be missing, if an engine was stopped before all was written."""
        return self.data_dir / "lost"

    def note_loss(self, why: str) -> None:
        """Record why the server is stopped before everything is written."""
        with contextlib.suppress(OSError):  # it may fail for the same reason
            self.loss_note.write_text(f"{why}\n")

    def recorded_engine(self) -> tuple[Engine, Path] | None:
        """Return the last recorded engine, which may be gone, and its control socket."""
        try:
            found = json.loads(self.engine_lock.read_text())
            engine = Engine(found["pid"], found["url"], found["broker_url"], self.log_file)
            return engine, Path(found["control"])
        except (OSError, ValueError, KeyError):
            return None


def lock(file: Path, *, wait: bool) -> int:
    """Lock a file for as long as the returned descriptor is open in any process.

    Raises:
        BlockingIOError: it is locked and `wait` is false.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
