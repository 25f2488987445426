"""Structured output: turns a model's text into a value that conforms to a JSON Schema.

A reply that already conforms costs nothing. Otherwise a second role, the extractor, is asked
to find the value in the text, and once more with what was wrong with its first answer.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

from graphs.state import encode
from worker.llm.client import Message, ModelCallFailed

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

Ask = Callable[[Sequence[Message]], str]

# More would bury the first mistake, which is usually the cause of the others.
ERRORS_SHOWN = 5
ERROR_LIMIT = 200
REPLY_LIMIT = 300

_THINKING = re.compile(r"\s*+(?:<think>(?:[^<]|<(?!/think>))*+</think>\s*+)*+")
_FENCE_START = re.compile(r"```(?:json(?![a-z0-9]))?", re.IGNORECASE)

_HINT = (
    "Your whole reply must be a single JSON value that conforms to the JSON Schema below. "
    "Write the JSON only: no explanation before or after it and no code fence."
)

_EXTRACTOR_INSTRUCTIONS = (
    "You turn text into data. The user message holds a JSON Schema and a text. Find in the text "
    "the value the schema describes and reply with that value alone, as JSON that conforms to "
    "the schema: no explanation and no code fence. Take what the text says and make nothing up. "
    "Where the schema allows null, use null for whatever the text does not give. "
    "Add no fields that the schema does not describe."
)


class Unfit(Exception):
    """A reply is not JSON, or does not conform to the schema; the message says why."""


class ExtractionFailed(Exception):
    """No value that conforms to the schema could be had."""


def schema_hint(schema: dict[str, Any]) -> str:
    """What is appended to a node's instructions, or else to its prompt."""
    return f"\n\n{_HINT}\nSchema:\n{_indented(schema)}"


def clean(text: str) -> str:
    """The text without leading `<think>` sections and without a code fence around it."""
    start = _THINKING.match(text).end()  # type: ignore[union-attr]  # it matches nothing, too
    if fence := _FENCE_START.match(text, start):
        start = fence.end()
    return text[start:].rstrip().removesuffix("```").strip()


def accept(text: str, schema: dict[str, Any]) -> Any:
    """The value of a reply that is JSON and conforms to the schema.

    Raises:
        Unfit: if it is not, or does not.
    """
    value = _parse(clean(text))
    problems = [_problem(error) for error in _first_errors(value, schema)]
    if problems:
        raise Unfit("; ".join(problems))
    return value


def extract(
    schema: dict[str, Any], output: str, ask_extractor: Ask, last_turn: str | None = None
) -> Any:
    """The value in a model's output: as it is, or found by at most two extractor calls.

    `last_turn` is the text of the last turn alone, where the output is that of several turns.

    Raises:
        ExtractionFailed: if both replies of the extractor are unfit, or a call of it fails;
            at once if the schema is none.
    """
    for text in dict.fromkeys((output, output if last_turn is None else last_turn)):
        try:
            return accept(text, schema)
        except Unfit:
            continue
    try:
        return _ask_twice(schema, output, ask_extractor)
    except ModelCallFailed as error:
        raise ExtractionFailed(f"structured output: {error}") from error


def extractor_messages(
    schema: dict[str, Any], text: str, problem: str | None = None
) -> list[Message]:
    """What the extractor is asked; `problem` is what was wrong with `text`, its own last reply."""
    parts = [f"Schema:\n{_indented(schema)}", f"Text:\n{text}"]
    if problem is not None:
        parts.append(
            f"The text is your previous reply, which was refused: {problem}\n"
            "Reply with the corrected JSON."
        )
    return [
        {"role": "system", "content": _EXTRACTOR_INSTRUCTIONS},
        {"role": "user", "content": "\n\n".join(parts)},
    ]


def _ask_twice(schema: dict[str, Any], output: str, ask_extractor: Ask) -> Any:
    reply = ask_extractor(extractor_messages(schema, output))
    try:
        return accept(reply, schema)
    except Unfit as problem:
        repaired = ask_extractor(extractor_messages(schema, reply, str(problem)))
    try:
        return accept(repaired, schema)
    except Unfit as problem:
        last_reply = _shortened(repaired, REPLY_LIMIT)
        raise ExtractionFailed(f"structured output: {problem}; last reply: {last_reply}") from None


def _parse(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite_float)
    except (ValueError, RecursionError) as error:
        raise Unfit(f"not valid JSON: {error}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is out of range")
    return value


def _first_errors(value: Any, schema: dict[str, Any]) -> Iterable[Any]:
    from referencing.exceptions import Unresolvable  # noqa: PLC0415  (slow, see `_validator`)

    try:
        errors = sorted(_validator(encode(schema)).iter_errors(value), key=lambda e: e.json_path)
    except Unresolvable as error:
        raise Unfit(f"output_schema refers to something it does not hold: {error}") from error
    except (RecursionError, OverflowError) as error:  # references in a circle; 10^400 to a float
        raise Unfit(f"cannot be checked against output_schema: {error}") from error
    return errors[:ERRORS_SHOWN]


@lru_cache(maxsize=256)
def _validator(schema_text: str) -> Validator:
    """A validator, built once per distinct schema.

    Raises:
        ExtractionFailed: if the schema is none; validation before the run may be switched off.
    """
    # Imported late: most graphs have no schema, and these take a tenth of a second.
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415
    from jsonschema.validators import validator_for  # noqa: PLC0415
    from referencing import Registry  # noqa: PLC0415

    schema = json.loads(schema_text)
    dialect = validator_for(schema, default=Draft202012Validator)
    try:
        dialect.check_schema(schema)
    except SchemaError as error:
        problem = _shortened(error.message, ERROR_LIMIT)
        raise ExtractionFailed(f"output_schema: {problem} at {error.json_path}") from error
    # An empty registry: a reference is never looked up over the network.
    return dialect(schema, registry=Registry())


def _problem(error: Any) -> str:
    return f"{error.json_path}: {_shortened(error.message, ERROR_LIMIT)}"


def _shortened(text: str, limit: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[:limit] + "…"


def _indented(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False)
