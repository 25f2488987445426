"""Splits the prompt into lines."""

import json
import os
from pathlib import Path


def read_state():
    """Return the run's state: in the environment if it is small, else in a file."""
    if "GRAPH_STATE" in os.environ:
        return json.loads(os.environ["GRAPH_STATE"])
    return json.loads(Path(os.environ["GRAPH_STATE_FILE"]).read_text(encoding="utf-8"))


lines = [line.strip() for line in read_state()["initial_prompt"].splitlines()]
# Every key is written to the state.
print(json.dumps({"lines": [line for line in lines if line]}))
