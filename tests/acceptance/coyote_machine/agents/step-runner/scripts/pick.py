import json
import os

state = json.loads(os.environ["GRAPH_STATE"])
number = state["number"]
if number < len(state["steps"]):
    step = state["steps"][number]
    assert step["title"], step
    print(json.dumps({"step": step, "number": number + 1, "_next": "run_step"}))
else:
    print("{}")
