import json
import os

state = json.loads(os.environ["GRAPH_STATE"])
questions = [question.strip() for question in state["initial_prompt"].split(";")]
if not all(questions):
    raise SystemExit("a question is empty")
print(json.dumps({"questions": questions}))
