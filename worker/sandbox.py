"""Runs a child process: own process group, scrubbed environment, bounded time and output.

Not a sandbox against hostile code: an agent's scripts run with the worker's rights.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import IO

from worker.cancellation import Cancellation

# What a group that ignores SIGTERM still gets before SIGKILL.
GRACE_S = 2.0

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")
_PASSED_ON = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "TERM"),
        *_PROXIES,
        *(name.lower() for name in _PROXIES),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        "NODE_EXTRA_CA_CERTS",
    }
)


@dataclass(frozen=True, slots=True)
class Finished:
    """How a process ended, and what it printed up to the limit."""

    returncode: int  # negative: the signal that ended it
    stdout: bytes
    stderr: bytes  # its end, where there was more than the limit
    timed_out: bool = False
    too_large: bool = False  # stdout went over the limit; the group was ended


def base_environment(more_names: Iterable[str] = ()) -> dict[str, str]:
    """The worker's environment as far as agents' programs may see it."""
    allowed = _PASSED_ON | frozenset(more_names)
    return {
        name: value
        for name, value in os.environ.items()
        if name in allowed or name.startswith("LC_")
    }


def run_process(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    workdir: Path,
    timeout_s: float,
    output_limit_bytes: int,
    cancellation: Cancellation,
) -> Finished:
    """Run a program to its end, or end its whole process group.

    Ends it at `timeout_s`, when stdout exceeds the limit, and when the cancellation is set.

    Raises:
        OSError: if it cannot be started.
    """
    deadline = monotonic() + timeout_s
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
        cwd=workdir,
        start_new_session=True,
    )
    group = _Group(process)
    with process, cancellation.calling(group.cancel):
        collected = _collect(process, deadline, output_limit_bytes)
        group.end()
        returncode = group.wait()
    return Finished(
        returncode,
        collected.stdout,
        collected.stderr,
        timed_out=collected.timed_out,
        too_large=collected.too_large,
    )


class _Group:
    """The process group of a child: SIGTERM at first, SIGKILL after the grace period."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._gone = False  # then its id may be another group's

    def end(self) -> None:
        """Ask the whole group to end."""
        self._signal(signal.SIGTERM)

    def cancel(self) -> None:
        """End the group, whatever it does, while another thread still collects its output."""
        self.end()
        killing = threading.Timer(GRACE_S, self._signal, (signal.SIGKILL,))
        killing.daemon = True
        killing.start()

    def wait(self) -> int:
        """Wait for the child, killing the group if it ignores SIGTERM."""
        try:
            return self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            return self._process.wait()
        finally:
            # What the child left behind in its group has no more business.
            self._signal(signal.SIGKILL)
            self._gone = True

    def _signal(self, number: int) -> None:
        with self._lock:
            if self._gone:
                return
            try:
                os.killpg(self._process.pid, number)
            except (ProcessLookupError, PermissionError):
                return


@dataclass(slots=True)
class _Collected:
    stdout: bytes = b""
    stderr: bytes = b""
    timed_out: bool = False
    too_large: bool = False


def _collect(process: subprocess.Popen[bytes], deadline: float, limit: int) -> _Collected:
    """Read both streams until the child ends, or time or room runs out."""
    assert process.stdout is not None
    assert process.stderr is not None
    collected = _Collected()
    stdout, stderr = bytearray(), bytearray()
    exited = os.pidfd_open(process.pid)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ, stdout)
            selector.register(process.stderr, selectors.EVENT_READ, stderr)
            selector.register(exited, selectors.EVENT_READ, None)
            running = True
            while running:
                left = deadline - monotonic()
                events = selector.select(left) if left > 0 else []
                if not events:
                    collected.timed_out = True
                    break
                for key, _ in events:
                    if key.data is None:
                        running = False
                    elif not _read_into(key.data, key.fileobj):  # type: ignore[arg-type]
                        selector.unregister(key.fileobj)
                if len(stderr) > 2 * limit:
                    del stderr[:-limit]
                if len(stdout) > limit:
                    collected.too_large = True
                    break
        if not collected.timed_out and not collected.too_large:
            collected.too_large = not _drain(process, stdout, stderr, limit)
    finally:
        os.close(exited)
    collected.stdout, collected.stderr = bytes(stdout[:limit]), bytes(stderr[-limit:])
    return collected


def _read_into(buffer: bytearray, stream: IO[bytes]) -> bool:
    """Take what is there; False at the stream's end."""
    chunk = os.read(stream.fileno(), 65536)
    buffer += chunk
    return bool(chunk)


def _drain(
    process: subprocess.Popen[bytes], stdout: bytearray, stderr: bytearray, limit: int
) -> bool:
    """Take what an exited child left in its pipes, without waiting for its descendants."""
    for stream, buffer in ((process.stdout, stdout), (process.stderr, stderr)):
        assert stream is not None
        os.set_blocking(stream.fileno(), False)
        try:
            while len(buffer) <= limit and _read_into(buffer, stream):
                pass
        except BlockingIOError:
            pass
    return len(stdout) <= limit
