import json
import os

state = json.loads(os.environ["GRAPH_STATE"])
if "mutiny" in state["initial_prompt"]:
    raise SystemExit("not before the crew")
print(json.dumps({"plan": state["initial_prompt"], "crew_names": ["Ada", "Bo"]}))
