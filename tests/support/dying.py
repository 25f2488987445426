"""Let a step of the engine run in a process that dies at a failpoint, truly, by SIGKILL."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable

from scheduler.failpoints import install
from scheduler.store import RunStore
from worker import tasks


def survives(failpoint: str | None, action: Callable[[], object]) -> bool:
    """Run `action` in a fork, armed with a failpoint; False if that killed it.

    A fork costs milliseconds where a worker costs a second, so a test can afford a death at
    every single place.
    """
    pid = os.fork()
    if pid == 0:
        try:
            if failpoint is not None:
                install(failpoint, RunStore, tasks)
            action()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, ended = os.waitpid(pid, 0)
    if os.WIFSIGNALED(ended):
        assert os.WTERMSIG(ended) == signal.SIGKILL
        return False
    assert os.WEXITSTATUS(ended) == 0, "the step failed; its traceback is above"
    return True
