import json
import os

state = json.loads(os.environ["GRAPH_STATE"])
if "storm" in state["draft"]:
    raise SystemExit("no grading in a storm")
doubtful = state["draft"].endswith("?")
print(json.dumps({"_next": "sharpen"} if doubtful else {"grade": "good"}))
