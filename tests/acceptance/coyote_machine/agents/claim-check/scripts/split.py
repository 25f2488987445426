import json
import os

state = json.loads(os.environ["GRAPH_STATE"])
print(json.dumps({"claims": [claim.strip() for claim in state["initial_prompt"].split(";")]}))
