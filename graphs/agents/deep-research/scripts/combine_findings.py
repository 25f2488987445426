"""Put the findings below their questions, in the order of the questions."""

from typing import Any

from node import read_state, text_of, write

NOTHING = "No questions were planned, so nothing was found."


def main() -> None:
    """Print the findings as one Markdown text."""
    state = read_state()
    questions = _listed(state.get("questions"))
    findings = _listed(state.get("question_findings"))
    # A question without findings still is a section; findings without a question are none.
    findings += [None] * (len(questions) - len(findings))
    sections = [
        f"## {_text(question)}\n\n{_text(found)}"
        for question, found in zip(questions, findings, strict=False)
    ]
    write(findings="\n\n".join(sections) or NOTHING)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else []


def _text(value: Any) -> str:
    return text_of({"value": value}, "value")


main()
