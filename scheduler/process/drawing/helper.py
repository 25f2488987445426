"""`python -m sleipnir.scheduler.process.drawing.helper`: lays out and renders drawings.

Native code cannot be interrupted, so the limit of CPU time kills the process. That also ends a
process whose caller is gone.
"""

from __future__ import annotations

import json
import os
import resource
import signal
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from sleipnir.graphs.drawing import native

_MEMORY_BYTES = 2 * 2**30
_NICENESS = 10


def main() -> None:
    """Answer questions until the caller closes the channel."""
    channel: Connection[Any, Any] = Connection(os.dup(0))
    # A layout takes a whole core for seconds: whatever else the machine serves goes first.
    with suppress(OSError):
        os.nice(_NICENESS)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(EOFError, OSError):
        while True:
            question = json.loads(channel.recv_bytes())
            signal.setitimer(signal.ITIMER_PROF, question["limit_s"])
            answer = _answer(question)
            signal.setitimer(signal.ITIMER_PROF, 0)
            channel.send_bytes(answer)


def _answer(question: dict[str, Any]) -> bytes:
    if "svg" in question:
        return native.render(question["svg"], question["zoom"])
    return json.dumps(native.lay_out(question["graph"], question["options"])).encode()


if __name__ == "__main__":
    main()
