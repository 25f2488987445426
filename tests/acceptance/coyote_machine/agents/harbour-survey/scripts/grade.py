import json
import os

state = json.loads(os.environ["GRAPH_STATE"])
if "storm" in state["draft"]:
    raise SystemExit("no grading in a storm")
if "ebb" in state["draft"]:
    print(json.dumps({"_next": "keep"}))
    raise SystemExit
doubtful = state["draft"].endswith("?")
print(json.dumps({"grade": "sharpened"} if doubtful else {"grade": "good", "_next": "keep"}))
