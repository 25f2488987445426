import json
import os

state = json.loads(os.environ["GRAPH_STATE"])
number = state["number"]
if number < len(state["steps"]):
    print(json.dumps({"step": state["steps"][number], "number": number + 1, "_next": "run_step"}))
else:
    print("{}")
