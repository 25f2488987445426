"""Kills a process whose interpreter is stuck, from outside of it.

Some C code holds the interpreter lock for as long as it runs, such as a search with a bad
pattern: no thread runs, no signal is handled, no lease renewed. So a separate process expects a
sign of life every second, and kills a process that has given none for too long.

It briefly outlives that process: without a supervisor, or if that was killed too, nobody else would
end the programs that a killed worker leaves behind.

It runs as a file with only the standard library: it costs some MB and no time.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from time import gmtime, strftime
from typing import Final

logger = logging.getLogger("sleipnir.worker")

BEAT_S: Final = 1.0
# Independent of the lease: a loaded machine may not run a healthy process for seconds.
SHORTEST_SILENCE_S: Final = 10.0

_STOPPED = "Tt"  # by a signal or a debugger, so on purpose
# The number of looks before killing what a dead worker left, some of which ends by itself: an
# isolated process first requeues its visit. The leases of the rest expire later.
_GRACE_LOOKS = 6
_KILLING_LOOKS = 10
_DEAF_TO = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Watched:
    """Starts a watchdog for this process, and gives it signs of life."""

    def __init__(self, silence_s: float, programs: str) -> None:
        """Start the thread that gives signs of life and restarts the watchdog whenever it is gone.

        Args:
            silence_s: after how long without a sign of life to kill this process; 10 s at least.
            programs: the beginning, `NAME=VALUE`, of a variable in the environment of each of its
                programs.
        """
        self._silence_s = max(silence_s, SHORTEST_SILENCE_S)
        self._programs = programs
        self._process: subprocess.Popen[bytes] | None = None
        threading.Thread(target=self._keep_beating, name="beat", daemon=True).start()

    def _keep_beating(self) -> None:
        pause = threading.Event()  # never set: its wait is the interval
        pipe = None
        while True:
            try:
                if pipe is None:
                    pipe = self._start()
                os.write(pipe, b".")
            except BlockingIOError:  # the watchdog is suspended
                pass
            except BrokenPipeError:  # the watchdog was killed
                self._forget_watchdog(pipe)
                pipe = None
            except OSError as error:
                logger.warning("cannot start the watchdog: %s", error)
            pause.wait(BEAT_S)

    def _start(self) -> int:
        """Start the watchdog; not in the main thread, among whose children orphans are searched."""
        theirs, ours = os.pipe()
        try:
            os.set_blocking(ours, False)
            of_us = (str(os.getpid()), str(self._silence_s), self._programs)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, *of_us],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                # In our session, like everything that ends by itself with us, but not in our group.
                process_group=0,
            )
        except OSError:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return ours

    def _forget_watchdog(self, pipe: int | None) -> None:
        if pipe is not None:
            os.close(pipe)
        if self._process is not None:
            self._process.wait()


def watch(pid: int, silence_s: float, beats: int = 0) -> bool:
    """Watch a process through `beats` until it ends; return False if it was killed for silence.

    Looks are counted, not time: while everything stands still, as in a suspended machine, that is
    one look. And a process stopped on purpose may be silent.
    """
    # Readable once the process has ended; Linux only.
    process = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    heard = [beats] if process is None else [beats, process]
    silent_s = 0.0
    while silent_s < silence_s:
        readable, _, _ = select.select(heard, [], [], BEAT_S)
        if process in readable or (readable and not os.read(beats, 4096)):
            return True
        silent_s = 0.0 if readable or _is_stopped(pid) else silent_s + BEAT_S
    _say(
        f"process {pid} did not respond for {silent_s:.0f} s and is killed; code in C may have "
        "blocked its interpreter, such as a search with a slow pattern"
    )
    if process is not None:
        signal.pidfd_send_signal(process, signal.SIGKILL)
    else:
        os.kill(pid, signal.SIGKILL)
    return False


def _say(text: str) -> None:
    """Print a line in the format of the watched process, whose modules are not at hand here."""
    if os.environ.get("SLEIPNIR_LOG_FORMAT") == "json":
        import json  # noqa: PLC0415  # takes memory in each watchdog

        fields = {"level": "error", "logger": "sleipnir.watchdog", "msg": text, "pid": os.getpid()}
        text = json.dumps({"ts": strftime("%Y-%m-%dT%H:%M:%S+00:00", gmtime()), **fields})
    else:
        text = f"sleipnir: {text}"
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _is_stopped(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # there is no /proc
        return False
    return status.rpartition(")")[2].split()[0] in _STOPPED


def end_programs(marked: bytes) -> None:
    """End the remaining programs of a dead worker, recognized by their environment."""
    for look in range(_GRACE_LOOKS + _KILLING_LOOKS):
        pids = [int(directory.name) for directory in Path("/proc").glob("[0-9]*")]
        left = [pid for pid in pids if _has(pid, marked)]
        if not left:
            return
        if look >= _GRACE_LOOKS:
            for pid in left:
                _kill(pid, marked)
        select.select([], [], [], BEAT_S)


def _has(pid: int, marked: bytes) -> bool:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or belongs to another user
        return False
    return any(variable.startswith(marked) for variable in variables)


def _kill(pid: int, marked: bytes) -> None:
    with suppress(OSError):  # it has ended
        process = os.pidfd_open(pid)
        try:
            if _has(pid, marked):  # still the same process, not another with its pid
                signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            os.close(process)


def main() -> None:
    """Run `watchdog.py PID SECONDS NAME=VALUE`, with the signs of life on standard input."""
    for number in _DEAF_TO:  # they are meant for the watched process, which this one outlives
        signal.signal(number, signal.SIG_IGN)
    with suppress(ProcessLookupError):
        watch(int(sys.argv[1]), float(sys.argv[2]))
    if sys.platform == "linux":
        end_programs(os.fsencode(sys.argv[3]))


if __name__ == "__main__":
    main()
