import json
import os

state = json.loads(os.environ["GRAPH_STATE"])
if state["claim"].startswith("rumour"):
    raise SystemExit("rumours are left out")
print(json.dumps({"verdict": f"{state['claim']}: unread"}))
