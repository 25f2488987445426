"""Say whether weak findings are researched again: as long as there is budget for it."""

import re
from typing import Any

from node import read_state, text_of, write

# Revisions for each draft that a person gets to see.
MAX_REFLEXION_REVISIONS = 2

INTRO = (
    "The last pass was judged incomplete. This is the review of it; deal with every point that "
    "concerns your question."
)
# Blanks and Markdown's emphasis may stand between the field, its colon and its word.
VERDICT = re.compile(r"VERDICT[\s*_`~]*:[\s*_`~]*([A-Za-z]+)", re.IGNORECASE)


def main() -> None:
    """Print whether there is another pass, and what it must know."""
    state = read_state()
    critique = text_of(state, "critique")
    attempts = _count(state.get("research_attempts"))
    if _verdict(critique) != "REVISE":
        write(outcome="pass")
    elif attempts >= MAX_REFLEXION_REVISIONS:
        write(outcome="spent")
    else:
        write(
            outcome="revise",
            research_attempts=attempts + 1,
            research_feedback=f"{INTRO}\n\n{critique}",
        )


def _verdict(critique: str) -> str:
    """The word after the first `VERDICT:`; without one it passes, and costs no revision."""
    found = VERDICT.search(critique)
    return found.group(1).upper() if found else "PASS"


def _count(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return 0


main()
