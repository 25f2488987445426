"""Writes the announcement: the prompt, and the reviewer's remark if there is one."""

import json
import os
from pathlib import Path


def read_state():
    """Return the run's state: in the environment if it is small, else in a file."""
    if "GRAPH_STATE" in os.environ:
        return json.loads(os.environ["GRAPH_STATE"])
    return json.loads(Path(os.environ["GRAPH_STATE_FILE"]).read_text(encoding="utf-8"))


state = read_state()
text = f"Announcement: {state['initial_prompt'] or 'nothing new'}"
if state["remark"]:
    text += f" ({state['remark']})"
# Every key is written to the state.
print(json.dumps({"draft": text}))
