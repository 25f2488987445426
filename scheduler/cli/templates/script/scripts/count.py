"""Counts words. A script gets the state as JSON and prints what to write to it."""

import json
import os
import sys
from pathlib import Path


def read_state():
    """Return the run's state: in the environment if it is small, else in a file."""
    if "GRAPH_STATE" in os.environ:
        return json.loads(os.environ["GRAPH_STATE"])
    return json.loads(Path(os.environ["GRAPH_STATE_FILE"]).read_text(encoding="utf-8"))


words = read_state()["initial_prompt"].split()
if not words:
    sys.exit("there is no text")
# Every key is written to the state.
print(json.dumps({"words": len(words), "longest": max(words, key=len)}))
