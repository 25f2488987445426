"""Which answers to a question count; one that does not leaves it open."""

from __future__ import annotations

from sleipnir.graphs.expression import Condition, parse_validation
from sleipnir.scheduler.errors import AnswerRefused
from sleipnir.scheduler.runs.consent import consent
from sleipnir.scheduler.runs.model import Question


def accepted(question: Question, text: str, limit_bytes: int) -> str:
    """The answer as its visit gets it.

    Raises:
        AnswerRefused: it is too large, or not what the question asks for.
    """
    size = len(text.encode(errors="surrogatepass"))
    if size > limit_bytes:
        raise AnswerRefused(
            f"the answer has {size} bytes; the limit of a value is {limit_bytes} "
            "(value_limit_bytes)"
        )
    if question.kind == "confirm":
        agreed = consent(text)
        if agreed is None:
            raise AnswerRefused(f"'{text}' is not a valid answer: expected yes or no")
        return agreed
    if not satisfies(question, text):
        raise AnswerRefused(
            f"the answer has {len(text)} characters, which does not satisfy "
            f"{question.validation}; the question stays open"
        )
    return text


def satisfies(question: Question, text: str) -> bool:
    """Whether the question's validation accepts a text; an empty one stands for the default."""
    condition = _condition(question)
    return condition is None or (not text and bool(question.default)) or condition.accepts(text)


def _condition(question: Question) -> Condition | None:
    try:
        return parse_validation(question.validation) if question.validation else None
    except ValueError:  # the graph was not validated: its node says so when it has the answer
        return None
