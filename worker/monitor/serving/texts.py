"""Questions as texts."""

from __future__ import annotations

from sleipnir.scheduler.runs.model import Question


def question_text(question: Question) -> str:
    """Return a question with the call that it is about, and its options."""
    call = question.guarded_call
    parts = [question.text, *([] if call is None else [call.to_text()])]
    if question.options:
        parts.append("\n".join(f"- {option}" for option in question.options))
    return "\n\n".join(parts)
