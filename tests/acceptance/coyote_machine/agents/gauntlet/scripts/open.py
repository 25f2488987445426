import json
import os

state = json.loads(os.environ["GRAPH_STATE"])
print(json.dumps({"plan": state["initial_prompt"], "crew_names": ["Ada", "Bo"]}))
