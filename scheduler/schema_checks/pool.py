"""Checks in processes that can be stopped; small and harmless ones in place."""

from __future__ import annotations

import atexit
import json
from typing import Any

from sleipnir.graphs.state import encode
from sleipnir.scheduler.process.helper_pool import HelperDied, HelperHangs, HelperPool
from sleipnir.scheduler.schema_checks import DEFAULT_LIMIT_S, checking
from sleipnir.scheduler.schema_checks.checking import Misfit, SchemaInvalid, Unchecked

# Keywords that make a check cost more than schema size times value size.
_COSTLY = ("pattern", "Ref", "$ref", "unique", "unevaluated")
# Up to this product of schema size and value size, in characters, a check is done in place.
_SMALL = 10_000_000


def misfits(schema: dict[str, Any], value: Any, limit_s: float = DEFAULT_LIMIT_S) -> list[Misfit]:
    """Return what in a JSON value violates a schema: paths and messages, the first hundred.

    Raises:
        SchemaInvalid: the schema is invalid.
        TookTooLong: the check takes more than `limit_s` seconds of CPU time.
        Unchecked: the value cannot be checked.
    """
    try:
        schema_text = encode(schema)
    except (ValueError, TypeError, RecursionError) as error:
        raise SchemaInvalid(f"the schema is not JSON: {error}") from error
    try:
        value_text = json.dumps(value)
    except RecursionError as error:
        raise Unchecked(str(error)) from error
    is_small = len(schema_text) * len(value_text) <= _SMALL
    if is_small and not any(word in schema_text for word in _COSTLY):
        return checking.misfits(schema_text, value)
    question = json.dumps({"schema": schema_text, "limit_s": limit_s})
    # The value is encoded already.
    question = f'{question[:-1]}, "value": {value_text}}}'
    return [(path, message) for path, message in _ask(question, limit_s)["misfits"]]


def matches(pattern: str, text: str, limit_s: float = DEFAULT_LIMIT_S) -> bool:
    """Return whether the pattern matches anywhere in the text.

    Raises:
        TookTooLong: that takes more than `limit_s` seconds of CPU time.
        Unchecked: the text cannot be searched.
    """
    question = json.dumps({"pattern": pattern, "text": text, "limit_s": limit_s})
    return bool(_ask(question, limit_s)["found"])


class TookTooLong(Unchecked):
    """The check was stopped; the message says after how long, and where."""

    def __init__(self, limit_s: float, busy_with: str = "") -> None:
        self.limit_s = limit_s
        what = f": {busy_with}" if busy_with else ""
        super().__init__(f"could not be checked within {limit_s:g} s{what}")


def _ask(question: str, limit_s: float) -> dict[str, Any]:
    """Return the answer to a question.

    Raises:
        SchemaInvalid, TookTooLong, Unchecked: there is none.
    """
    try:
        answer: dict[str, Any] = json.loads(_POOL.ask(question.encode(), limit_s))
    except HelperHangs as error:
        raise TookTooLong(limit_s) from error
    except HelperDied as error:
        raise Unchecked(str(error)) from error
    except OSError as error:
        raise Unchecked(f"cannot start a process to check it: {error}") from error
    if "late" in answer:
        raise TookTooLong(limit_s, answer["late"])
    if "invalid" in answer:
        raise SchemaInvalid(answer["invalid"])
    if "unchecked" in answer:
        raise Unchecked(answer["unchecked"])
    return answer


_POOL = HelperPool("sleipnir.scheduler.schema_checks.helper")
atexit.register(_POOL.close)
