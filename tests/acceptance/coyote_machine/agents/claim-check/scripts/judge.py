import json
import os

state = json.loads(os.environ["GRAPH_STATE"])
print(json.dumps({"verdict": f"{state['claim']}: {'holds' if state['holds'] else 'falls'}"}))
