"""`python -m sleipnir.worker`: the program of a worker process."""

from __future__ import annotations

import gc
import sys

from sleipnir.lazy import lazy_imports

with lazy_imports():
    from sleipnir.worker import process

if __name__ == "__main__":
    # What is imported stays: looking for garbage in it takes a sixth of the start. Once it takes
    # messages, the worker collects as usual.
    gc.disable()
    sys.exit(process.main())
