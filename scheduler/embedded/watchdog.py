"""Kills a process whose interpreter stands still, from outside of it.

Some code in C holds the interpreter for as long as it runs, a search with a bad pattern among it:
no thread gets a turn, no signal is handled, no lease renewed. So a process of its own listens for
a sign of life each second, and ends the one that has given none for too long.

It outlives that process by a moment. Where there is no supervisor, or that was killed too, nobody
else would end the programs that a killed worker leaves behind.

Run as a file, with the standard library alone: it costs some MB and no time.
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
from typing import Final

logger = logging.getLogger("sleipnir.worker")

BEAT_S: Final = 1.0
# Whatever the lease: a loaded machine may leave a healthy process without a turn for seconds.
SHORTEST_SILENCE_S: Final = 10.0

_STOPPED = "Tt"  # by a signal or a debugger, which is somebody's will
# What belongs to a dead worker and ends by itself gets so many looks to do so: a visit in a process
# of its own is given back. The lease of what is left ends later.
_GRACE_LOOKS = 6
_KILLING_LOOKS = 10
_DEAF_TO = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Watched:
    """Has this process watched, and shows that it lives, for as long as it does."""

    def __init__(self, silence_s: float, programs: str) -> None:
        """Start the thread that beats, and that starts the watchdog, whenever there is none.

        Args:
            silence_s: how long no sign of life is the end of this process; 10 s at least.
            programs: what a variable in the environment of each of its programs begins with,
                as `NAME=VALUE`.
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
            except BlockingIOError:  # the watchdog has been stopped
                pass
            except BrokenPipeError:  # it has been killed
                self._bury(pipe)
                pipe = None
            except OSError as error:
                logger.warning("cannot start the watchdog: %s", error)
            pause.wait(BEAT_S)

    def _start(self) -> int:
        """Not in the main thread, among whose children those are sought that programs left."""
        theirs, ours = os.pipe()
        try:
            os.set_blocking(ours, False)
            of_us = (str(os.getpid()), str(self._silence_s), self._programs)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, *of_us],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                # In our session, as all that ends by itself when we do, but not in our group.
                process_group=0,
            )
        except OSError:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return ours

    def _bury(self, pipe: int | None) -> None:
        if pipe is not None:
            os.close(pipe)
        if self._process is not None:
            self._process.wait()


def watch(pid: int, silence_s: float, beats: int = 0) -> bool:
    """Listen to `beats` until the process ends; False if none came for so long that it was killed.

    Looks are counted, not time: where all stands still, as in a suspended machine, that is one
    look. And a process that somebody has stopped may be silent.
    """
    # Readable once the process has ended; only Linux has such.
    process = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    heard = [beats] if process is None else [beats, process]
    silent_s = 0.0
    while silent_s < silence_s:
        readable, _, _ = select.select(heard, [], [], BEAT_S)
        if process in readable or (readable and not os.read(beats, 4096)):
            return True
        silent_s = 0.0 if readable or _is_stopped(pid) else silent_s + BEAT_S
    sys.stderr.write(
        f"sleipnir: process {pid} did not respond for {silent_s:.0f} s and is killed; code in C "
        "may have blocked its interpreter, such as a search with a slow pattern\n"
    )
    sys.stderr.flush()
    if process is not None:
        signal.pidfd_send_signal(process, signal.SIGKILL)
    else:
        os.kill(pid, signal.SIGKILL)
    return False


def _is_stopped(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # there is no /proc
        return False
    return status.rpartition(")")[2].split()[0] in _STOPPED


def end_programs(marked: bytes) -> None:
    """End what is left of a dead worker's programs, told by what is in their environment."""
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
    except OSError:  # it has ended, or is somebody else's
        return False
    return any(variable.startswith(marked) for variable in variables)


def _kill(pid: int, marked: bytes) -> None:
    with suppress(OSError):  # it has ended
        process = os.pidfd_open(pid)
        try:
            if _has(pid, marked):  # still that one, and not another of its number
                signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            os.close(process)


def main() -> None:
    """`watchdog.py PID SECONDS NAME=VALUE`, with the signs of life on standard input."""
    for number in _DEAF_TO:  # those are for the one it watches: it goes when that has gone
        signal.signal(number, signal.SIG_IGN)
    with suppress(ProcessLookupError):
        watch(int(sys.argv[1]), float(sys.argv[2]))
    if sys.platform == "linux":
        end_programs(os.fsencode(sys.argv[3]))


if __name__ == "__main__":
    main()
