"""Send the research back with what a person wrote, and with a fresh budget of revisions."""

from node import read_state, text_of, write

INTRO = (
    "A person read the report and wants changes. They come first in this pass; deal with each one "
    "that concerns your question."
)


def main() -> None:
    """Print the feedback for all questions."""
    decision = text_of(read_state(), "decision").strip()
    write(
        _next="research_each_question",
        research_attempts=0,
        research_feedback=f"{INTRO}\n\n{decision}",
    )


main()
