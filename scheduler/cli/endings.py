"""How a command ends: by itself, or by the signal that tells it to, once it has cleaned up."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from sleipnir.scheduler.errors import Terminated

_TERMINATING = (signal.SIGTERM, signal.SIGHUP)


def hear_termination() -> None:
    """Raise `Terminated` for the first SIGTERM or SIGHUP; another one ends us at once."""
    for number in _TERMINATING:
        if signal.getsignal(number) == signal.SIG_DFL:  # else we are told not to mind
            signal.signal(number, _terminate)


@contextlib.contextmanager
def minding_readers() -> Iterator[None]:
    """End as other tools do when nobody reads our output any more (`| head -1`)."""
    try:
        yield
    except BrokenPipeError as error:
        raise Terminated(signal.SIGPIPE) from error


def leave(code: int) -> NoReturn:
    """End with an exit code as the interpreter does, except that it is not taken apart.

    That would be a sixth of what a short command takes.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads; not in the stubs
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            stream.flush()
    os._exit(code)


def end_by(number: int) -> NoReturn:
    """End by a signal, as whoever sent it expects; a shell reports 128 and its number."""
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    os._exit(128 + number)


def _terminate(number: int, _frame: FrameType | None) -> None:
    for other in _TERMINATING:
        signal.signal(other, signal.SIG_DFL)
    raise Terminated(number)
