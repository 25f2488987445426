import json
import os

state = json.loads(os.environ["GRAPH_STATE"])
print(json.dumps({"_next": "passed"} if state["passes"] else {}))
