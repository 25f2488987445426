"""Is there a log to read? A blank prompt leads to the question, a wrong one fails."""

from node import emit, fail, read_state
from source import NoLog, locate

prompt = read_state().get("initial_prompt", "")
if not prompt.strip():
    emit(_next="ask_for_log")
else:
    try:
        locate(prompt)
    except NoLog as problem:
        fail(str(problem))
    emit()
