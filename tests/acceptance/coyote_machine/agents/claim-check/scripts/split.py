import json
import os

state = json.loads(os.environ["GRAPH_STATE"])
claims = [claim.strip() for claim in state["initial_prompt"].split(";")]
if not all(claims):
    raise SystemExit("a claim is empty")
print(json.dumps({"claims": claims}))
