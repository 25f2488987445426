import json
import os

if "GRAPH_STATE_FILE" in os.environ:
    with open(os.environ["GRAPH_STATE_FILE"]) as file:
        state = json.load(file)
else:
    state = json.loads(os.environ["GRAPH_STATE"])
lines = [f"{crop}: {text}" for crop, text in zip(state["crops"], state["advice"])]
print(json.dumps({"sheet": "\n".join(lines)}))
