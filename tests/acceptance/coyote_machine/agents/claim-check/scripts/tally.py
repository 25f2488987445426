import json
import os

state = json.loads(os.environ["GRAPH_STATE"])
if len(state["verdicts"]) > 3:
    raise SystemExit("the form has three lines")
held = [verdict for verdict in state["verdicts"] if verdict.endswith("holds")]
print(json.dumps({"verdicts": state["verdicts"], "_next": "some_hold"} if held else {}))
