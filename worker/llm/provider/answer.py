"""A provider's answer in one form, the same for all providers and for streams."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from math import isfinite
from operator import index
from typing import Any, Protocol

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import Usage
from sleipnir.scheduler.runs.recording import Finish
from sleipnir.worker.llm.client import Embedded, Endpoint, Listener, Message, ModelRequest, Reranked
from sleipnir.worker.llm.provider.history import REASONING, THOUGHTS
from sleipnir.worker.llm.thoughts import separated

# The fields of a message that are texts: what the model says, its reasoning under both of its
# names, and why it refuses. All others are about the server.
SAID = ("content", "reasoning_content", "reasoning", "refusal")

# Why a reply ended, in the words of OpenAI, Anthropic, Google and Mistral, in small letters; any
# other means that the model was done.
_FINISHES: Mapping[str, Finish] = {
    **dict.fromkeys(
        ("length", "max_tokens", "model_length", "model_context_window_exceeded"), "length"
    ),
    **dict.fromkeys(
        ("content_filter", "refusal", "safety", "prohibited_content", "blocklist", "spii"),
        "content_filter",
    ),
    "recitation": "content_filter",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's message, and the usage it reports."""

    message: Message
    usage: Usage  # its cost by the price list; None if not listed
    finish: Finish | None = None
    price_share: float = 1.0  # what the tier of the reply costs of the price


class ProviderClient(Protocol):
    """A way to ask a model once; `failures` explains what it raises."""

    def ask(
        self,
        request: ModelRequest,
        endpoint: Endpoint,
        listener: Listener | None,
        limit_bytes: int,
        without: frozenset[str],
    ) -> Answer:
        """Ask, within the bounds that `transport` has for the calling thread.

        Args:
            without: fields to leave out, see `refused_fields`.
        """

    def embed(self, texts: Sequence[str], endpoint: Endpoint) -> Embedded:
        """Return the vectors of texts, within the same bounds."""

    def rerank(self, query: str, texts: Sequence[str], top_n: int, endpoint: Endpoint) -> Reranked:
        """Return the best texts for a query, within the same bounds."""

    def missing_keys(self, endpoint: Endpoint) -> Sequence[str]:
        """Return the environment variables that could hold the key this endpoint lacks."""


class NotACompletion(Exception):
    """The response is JSON, but not a model's reply."""

    def __init__(self, received: object) -> None:
        super().__init__(f"Empty or invalid response from LLM endpoint. Received: {received!r}")


class NoStream(Exception):
    """The server did not stream its reply, which is lost for a client that expected a stream."""


class ErrorReply(Exception):
    """The server sent an error in place of a reply."""

    def __init__(self, error: object) -> None:
        self.body = error if isinstance(error, dict) else {"message": error}
        super().__init__(str(error))


def vectors_of(data: Any) -> Sequence[Sequence[float]]:
    """Return the vectors in the data of a reply, in the order of their texts.

    Raises:
        NotACompletion: there are none, they are not numbers, or two are of one text.
    """
    try:
        ordered = sorted(data, key=lambda item: item["index"])
        if len({item["index"] for item in ordered}) < len(ordered):
            raise ValueError
        return [[float(number) for number in item["embedding"]] for item in ordered]
    except (TypeError, KeyError, ValueError) as error:
        raise NotACompletion(str(data)[:500]) from error


def order_of(results: Any, count: int) -> Sequence[tuple[int, float]]:
    """Return a reranker's results, positions of texts with their scores, in the order received.

    Args:
        count: how many texts there are.

    Raises:
        NotACompletion: there are none, or not for these texts.
    """
    try:
        order = [(index(item["index"]), float(item["relevance_score"])) for item in results]
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise NotACompletion(str(results)[:500]) from error
    places = {place for place, _ in order}
    is_usable = 0 < len(order) == len(places) and places <= set(range(count))
    if not is_usable or not all(isfinite(score) for _, score in order):
        raise NotACompletion(str(results)[:500])
    return sorted(order, key=lambda placed: -placed[1])


def tokens_reranked(reply: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the tokens a reranker counted in its request and reply; None if it did not."""
    meta = _object(reply.get("meta"))
    counted = {**_object(meta.get("billed_units")), **_object(meta.get("tokens"))}
    counted |= _object(reply.get("usage"))
    whole = counted.get("input_tokens", counted.get("total_tokens"))
    written = counted.get("completion_tokens", counted.get("output_tokens"))
    return counted.get("prompt_tokens", whole), written


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def assistant_message(said: Mapping[str, Any], finish: Finish | None = None) -> Message:
    """Return a message as the next request and the records need it: no nulls, calls with ids."""
    message = {name: value for name, value in said.items() if value is not None}
    message["role"] = "assistant"
    if "content" in message:
        message |= _with_thoughts_apart(message, text_of(message["content"]), finish)
    calls = calls_of(message)
    message.pop("tool_calls", None)
    if calls:
        message["tool_calls"] = _identified(calls)
    return {name: _finite(value) for name, value in message.items()}


def finish_of(choice: Mapping[str, Any]) -> Finish | None:
    """Return why a choice ended, or a piece of it; None if the model was done, or is not yet."""
    return _FINISHES.get(str(choice.get("finish_reason") or "").lower())


def text_of(content: Any) -> str:
    """Return the text of a content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise NotACompletion({"content": content})
    texts = [part.get("text") for part in content if part.get("type") == "text"]
    return "".join(text for text in texts if isinstance(text, str))


def calls_of(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the calls in a message, or in a piece of one."""
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise NotACompletion({"tool_calls": calls})
    return calls


def arguments_of(function: Mapping[str, Any]) -> str:
    """Return the arguments of a called function as text; some servers send an object instead."""
    arguments = function.get("arguments") or ""
    return arguments if isinstance(arguments, str) else json.dumps(_finite(arguments))


def _with_thoughts_apart(
    message: Mapping[str, Any], text: str, finish: Finish | None
) -> dict[str, Any]:
    """Separate a model's reasoning from its answer, unless the server has done so."""
    if any(message.get(name) for name in REASONING):
        return {"content": text}
    thoughts, answer = separated(text, is_cut=finish == "length")
    return {THOUGHTS: thoughts, "content": answer} if thoughts else {"content": answer}


def _identified(calls: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return calls with an id each.

    Some servers give no ids, and some give different calls the same one, such as the function's
    name. Only a call that is repeated with its id is one.
    """
    given = Counter(str(call.get("id") or "") for call in calls)
    made_up = (each for each in (f"call_{number}" for number in count()) if each not in given)
    found: dict[str, dict[str, Any]] = {}
    repeatable: set[tuple[str, str, str]] = set()
    for call in calls:
        function = _named(call)
        call_id = str(call.get("id") or next(made_up))
        if given[call_id] > 1:
            said = (call_id, function["name"], _canonical(function["arguments"]))
            if said in repeatable:
                continue
            repeatable.add(said)
        if call_id in found:
            call_id = next(made_up)
        found[call_id] = {**_without_index(call), "id": call_id, "function": function}
    return list(found.values())


def _canonical(arguments: str) -> str:
    """Return arguments in a form that does not depend on blanks or the order of keys."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def _without_index(call: Mapping[str, Any]) -> dict[str, Any]:
    """Drop a call's `index`: it only serves to join pieces, and strict servers refuse it."""
    return {name: value for name, value in call.items() if name != "index"}


def _named(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a called function with its name and arguments, even if the model left them out."""
    function = call.get("function") or {}
    if not isinstance(function, dict):
        raise NotACompletion({"function": function})
    name, arguments = str(function.get("name") or ""), arguments_of(function)
    return {**function, "name": name, "arguments": arguments}


def _finite(value: Any) -> Any:
    """Replace numbers that JSON cannot hold by null, as the value is recorded and sent again."""
    match value:
        case float() if not isfinite(value):
            return None
        case dict():
            return {name: _finite(part) for name, part in value.items()}
        case list():
            return [_finite(part) for part in value]
        case _:
            return value
