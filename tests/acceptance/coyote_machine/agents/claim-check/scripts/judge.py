import json
import os

state = json.loads(os.environ["GRAPH_STATE"])
if len(state["claim"]) > 60:
    raise SystemExit("the form has no room for it")
print(json.dumps({"verdict": f"{state['claim']}: {'holds' if state['holds'] else 'falls'}"}))
