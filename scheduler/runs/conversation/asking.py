"""Questions of models to people, and the results that models get for the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from sleipnir.graphs.state import decode, encode
from sleipnir.scheduler.runs.answers import nearest_option
from sleipnir.scheduler.runs.consent import consent

AskKind: TypeAlias = Literal["ask", "confirm", "input", "checkbox"]

PREFIX = "user__"
CONFIRM = f"{PREFIX}confirm"
FUNCTIONS: tuple[str, ...] = tuple(
    f"{PREFIX}{kind}" for kind in ("ask", "confirm", "input", "checkbox")
)
# Names that prompts of other tools use.
ALIASES = {f"{PREFIX}select": f"{PREFIX}ask"}

# Per question with its options: a root's model is shown all open ones at once.
LARGEST_BYTES = 64 * 1024
TOO_LARGE = f"the question and its options are larger than {LARGEST_BYTES // 1024} KiB"
TOO_LARGE_CALL = (
    f"the call and its question are larger than {LARGEST_BYTES // 1024} KiB, more than a person "
    "can be shown"
)

_GUIDANCE = (
    "No person is available. Choose a sensible default and continue, or stop and say what you need "
    "to know."
)


def by_function(answers: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return answers in advance by the names of functions in place of their aliases."""
    found: dict[str, list[str]] = {}
    for name, texts in answers.items():
        found.setdefault(ALIASES.get(name, name), []).extend(texts)
    return found


def is_too_large(question: str, options: Sequence[str] = ()) -> bool:
    """Return whether a question is too large to be asked."""
    return len(encode([question, *options]).encode()) > LARGEST_BYTES


def answered(kind: AskKind, options: Sequence[str], answer: str) -> dict[str, Any]:
    """Return the result of an answered call."""
    if kind == "checkbox":
        return {"answers": chosen(options, answer)}
    if kind == "confirm":
        return {"answer": consent(answer) or answer}
    return {"answer": nearest_option(options, answer) if kind == "ask" else answer}


def chosen(options: Sequence[str], answer: str) -> list[str]:
    """Return the chosen options: a JSON array, one option, or several separated by commas.

    Any other answer is a single choice of the person's own.
    """
    found = _json_array(answer)
    if found is not None:
        return found
    choice = nearest_option(options, answer)
    if choice in options:
        return [choice]
    parts = [nearest_option(options, part) for part in answer.split(",")]
    return parts if all(part in options for part in parts) else [answer]


def _json_array(text: str) -> list[str] | None:
    try:
        found = decode(text)
    except ValueError:
        return None
    is_array = isinstance(found, list) and all(isinstance(item, str) for item in found)
    return found if is_array else None


def no_person(kind: AskKind, question: str, options: Sequence[str]) -> dict[str, Any]:
    """Return the result of a call in a run that has no person to ask."""
    return {
        "needs_human": True,
        "action": kind,
        "question": question,
        "options": list(options),
        "guidance": _GUIDANCE,
    }


def timed_out(after_s: float) -> dict[str, Any]:
    """Return the result of a call that was not answered in time."""
    return {
        "error": f"nobody answered within {after_s:g} seconds",
        "fallback": "Use your own judgement and continue.",
    }
