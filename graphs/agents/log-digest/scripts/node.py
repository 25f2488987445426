"""What every node script does: read the run's state, print one JSON object, or fail."""

import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn


def read_state() -> dict[str, Any]:
    """The run's state: small ones arrive in the environment, large ones as a file."""
    if file := os.environ.get("GRAPH_STATE_FILE"):
        return json.loads(Path(file).read_text(encoding="utf-8"))
    return json.loads(os.environ.get("GRAPH_STATE") or "{}")


def emit(**writes: Any) -> None:
    """Hand keys to the run's state."""
    # ASCII escapes survive any locale, and keep lone surrogates out of the output stream.
    print(json.dumps(writes))


def fail(message: str) -> NoReturn:
    """End this node as failed; the engine stores `message` under the state key `error`."""
    sys.exit(message)
