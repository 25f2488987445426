"""`python -m sleipnir.worker`: the program of a worker process."""

from __future__ import annotations

import gc
import sys

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.process.telemetry.environment import leave_out_unused

with lazy_imports():
    from sleipnir.worker.process import main

if __name__ == "__main__":
    # Do not collect garbage during the start: scanning what is imported, which stays anyway, takes
    # a sixth of it. The worker enables collection again before it takes messages.
    gc.disable()
    leave_out_unused()
    sys.exit(main.main())
