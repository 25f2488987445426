import json
import os

state = json.loads(os.environ["GRAPH_STATE"])
print(json.dumps({"gathered": "; ".join(map(str, state["findings"]))}))
