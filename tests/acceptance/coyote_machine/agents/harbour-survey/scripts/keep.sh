#!/usr/bin/env bash
python3 -c 'import json, os
state = json.loads(os.environ["GRAPH_STATE"])
kept = {"finding": state["draft"] + " (" + state["grade"] + ")"}
print(json.dumps({"_next": "sharpen"} if state["draft"].endswith("?") else kept))'
