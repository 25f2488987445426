"""Is there a log to read? A wrong prompt fails; a blank one is a matter of the node's routes."""

from node import emit, fail, read_state
from source import NoLog, locate

prompt = read_state()["initial_prompt"]
try:
    if prompt.strip():
        locate(prompt)
except NoLog as problem:
    fail(str(problem))
emit()
