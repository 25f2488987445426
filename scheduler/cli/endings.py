"""Ends commands: by exit code, or by the received signal after cleaning up."""

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


def install_signal_handlers() -> None:
    """Raise `Terminated` for the first SIGTERM or SIGHUP; a second one ends the process at once."""
    for number in _TERMINATING:
        if signal.getsignal(number) == signal.SIG_DFL:  # else it is ignored on purpose
            signal.signal(number, _terminate)


@contextlib.contextmanager
def end_on_broken_pipe() -> Iterator[None]:
    """End by SIGPIPE, as other tools do, when nobody reads our output any more (`| head -1`)."""
    try:
        yield
    except BrokenPipeError as error:
        raise Terminated(signal.SIGPIPE) from error


def exit_fast(code: int) -> NoReturn:
    """Exit as the interpreter does, but without tearing it down.

    The teardown would be a sixth of a short command's time.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads; not in the stubs
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            stream.flush()
    os._exit(code)


def die_by_signal(number: int) -> NoReturn:
    """End by a signal, as its sender expects; a shell reports 128 plus its number."""
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
