"""Structured output: turns a model's text into a value that conforms to a JSON Schema.

A reply that already conforms needs no further call. Otherwise another model role, the extractor, is
asked to find the value in the text, and once more with the errors of its first answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from sleipnir.graphs.document.finding import cut
from sleipnir.graphs.schema import Graph, LlmNode
from sleipnir.graphs.state import decode
from sleipnir.scheduler.schema_checks import DEFAULT_LIMIT_S, pool
from sleipnir.scheduler.schema_checks.checking import SchemaInvalid, Unchecked
from sleipnir.worker.llm.client import Message, ModelCallFailed, ReplySchema
from sleipnir.worker.llm.response_format import response_format
from sleipnir.worker.llm.thoughts import separated

Ask = Callable[[Sequence[Message]], str]

# More would bury the first error, which usually causes the others.
ERRORS_SHOWN = 5
ERROR_LIMIT = 200
REPLY_LIMIT = 300

_FENCE_START = re.compile(r"```(?:json(?![a-z0-9]))?", re.IGNORECASE)

_HINT = (
    "Your whole reply must be a single JSON value that conforms to the JSON Schema below. "
    "Write the JSON only: no explanation before or after it and no code fence."
)

_EXTRACTOR_INSTRUCTIONS = (
    "You extract data from text. The user message contains a JSON Schema and a text. In the text, "
    "find the value that the schema describes. Reply with that value only, as JSON that conforms "
    "to the schema: no explanation, no code fence. Use only what the text says; invent nothing. "
    "Where the schema allows null, use null for what the text does not say. "
    "Add no fields that the schema does not describe."
)


class Unfit(Exception):
    """A reply is not JSON, or does not conform to the schema; the message says why."""


class ExtractionFailed(Exception):
    """No value that conforms to the schema could be obtained."""


def reply_schema(node_id: str, node: LlmNode, graph: Graph) -> ReplySchema | None:
    """Return the schema of a node's replies if it may be a field of requests; None: a hint only."""
    form = node.structured or graph.structured
    schema = node.output_schema
    if schema is None or form == "prompt" or (form == "auto" and schema.get("type") != "object"):
        return None
    try:
        field = response_format(node_id, schema)
    except (AttributeError, TypeError):  # it is no schema, as the check of the reply will say
        return None
    return ReplySchema(field, schema_hint(schema), required=form == "native")


def schema_hint(schema: dict[str, Any]) -> str:
    """Return what is appended to a node's instructions, or to its prompt if it has none."""
    return f"\n\n{_HINT}\nSchema:\n{_indented(schema)}"


def clean(text: str) -> str:
    """Return the text without the model's thoughts and without a code fence around it."""
    text = separated(text).answer.strip()
    if fence := _FENCE_START.match(text):
        text = text[fence.end() :]
    return text.rstrip().removesuffix("```").strip()


def accept(text: str, schema: dict[str, Any], limit_s: float = DEFAULT_LIMIT_S) -> Any:
    """Parse a reply as JSON and check it against the schema; return its value.

    Raises:
        Unfit: it is not JSON, or does not conform.
        ExtractionFailed: the schema is invalid, or the check takes too long.
    """
    value = _parse(clean(text))
    try:
        found = pool.misfits(schema, value, limit_s)
    except pool.TookTooLong as error:
        raise ExtractionFailed(f"structured output: {error}") from error
    except SchemaInvalid as error:
        # Possible, as validation before the run may be switched off.
        raise ExtractionFailed(f"output_schema: {_shortened(str(error), ERROR_LIMIT)}") from error
    except Unchecked as error:
        problem = _shortened(str(error), ERROR_LIMIT)
        raise Unfit(f"cannot be checked against output_schema: {problem}") from error
    if found:
        raise Unfit("; ".join(_problem(*misfit) for misfit in found[:ERRORS_SHOWN]))
    return value


def extract(
    schema: dict[str, Any],
    output: str,
    ask_extractor: Ask,
    last_turn: str | None = None,
    limit_s: float = DEFAULT_LIMIT_S,
) -> Any:
    """Return the value in a model's output: as it is, or found by at most two extractor calls.

    `last_turn` is the text of the last turn alone, where the output is that of several turns;
    `limit_s` is the processor time that one check against the schema may take.

    Raises:
        ExtractionFailed: both replies of the extractor are unfit, or one of its calls fails; at
            once if the schema is invalid or a check takes too long.
    """
    for text in dict.fromkeys((output, output if last_turn is None else last_turn)):
        try:
            return accept(text, schema, limit_s)
        except Unfit:
            continue
    try:
        return _ask_twice(schema, output, ask_extractor, limit_s)
    except ModelCallFailed as error:
        raise ExtractionFailed(f"structured output: {error}") from error


def extractor_messages(
    schema: dict[str, Any], text: str, problem: str | None = None
) -> list[Message]:
    """Build the extractor's prompt; `problem` says what is wrong with `text`, its last reply."""
    parts = [f"Schema:\n{_indented(schema)}", f"Text:\n{text}"]
    if problem is not None:
        parts.append(
            f"The text is your previous reply, which was rejected: {problem}\n"
            "Reply with the corrected JSON."
        )
    return [
        {"role": "system", "content": _EXTRACTOR_INSTRUCTIONS},
        {"role": "user", "content": "\n\n".join(parts)},
    ]


def _ask_twice(schema: dict[str, Any], output: str, ask_extractor: Ask, limit_s: float) -> Any:
    reply = ask_extractor(extractor_messages(schema, output))
    try:
        return accept(reply, schema, limit_s)
    except Unfit as problem:
        repaired = ask_extractor(extractor_messages(schema, reply, str(problem)))
    try:
        return accept(repaired, schema, limit_s)
    except Unfit as problem:
        last_reply = _shortened(repaired, REPLY_LIMIT)
        raise ExtractionFailed(f"structured output: {problem}; last reply: {last_reply}") from None


def _parse(text: str) -> Any:
    try:
        return decode(text)
    except ValueError as error:
        raise Unfit(f"not valid JSON: {error}") from error


def _problem(path: str, message: str) -> str:
    return f"{path}: {_shortened(message, ERROR_LIMIT)}"


def _shortened(text: str, limit: int) -> str:
    return cut(" ".join(text.split()), limit)


def _indented(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False)
