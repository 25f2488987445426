import json
import os

state = json.loads(os.environ["GRAPH_STATE"])
if not all(isinstance(word, str) for word in state["said"]):
    raise SystemExit("somebody said nothing")
print(json.dumps({"_next": "passed"} if state["passes"] else {}))
