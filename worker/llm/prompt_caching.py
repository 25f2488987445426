"""How providers are told to cache the beginning of a prompt, which later calls repeat.

Some cache what ends at a mark, for which they charge: Anthropic, wherever its models are served.
OpenAI caches by itself, and finds it sooner if calls that begin alike have a key in common. Neither
is part of what makes two requests equal.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sleipnir.graphs.schema import PromptCache
from sleipnir.scheduler.config.model_table import prompt_cache_min_tokens
from sleipnir.worker.llm.client import CACHE_KEY, Message, ModelRequest, PromptCaching
from sleipnir.worker.llm.limits.estimate import prompt_tokens
from sleipnir.worker.visit.context import Visit

# Where Anthropic's models are served by others, with the same marks.
_SERVED_BY = frozenset(
    ("azure_ai", "bedrock", "databricks", "litellm_proxy", "openrouter", "vertex_ai")
)
_DIGITS = 12


def caching_of(visit: Visit[Any], *, loops: bool) -> PromptCaching | None:
    """Return how the prompts of a visit are cached; None: not at all.

    Args:
        loops: whether the next call repeats all messages of this one.
    """
    own: PromptCache | None = getattr(visit.node, "prompt_cache", None)
    wish = visit.graph.prompt_cache if own is None else own
    if wish is False:
        return None
    is_one_of_many = visit.context.batch is not None or visit.item_index is not None or loops
    return PromptCaching(
        key=f"{visit.agent.digest[:_DIGITS]}/{visit.node_id}"[:64],
        always=wish != "auto",
        is_one_of_many=is_one_of_many,
        loops=loops,
        ttl="1h" if wish == "1h" else None,
    )


def told_to_cache(request: ModelRequest) -> ModelRequest:
    """Return a request to one model with what its provider wants, if its prompt is to be cached."""
    caching = request.caching
    provider, _, name = request.model.partition(":")
    marks = provider == "anthropic" or (provider in _SERVED_BY and "claude" in name.lower())
    if caching is None or not (marks or provider == "openai"):
        return request
    if not _is_worth_it(request, caching):
        return request
    if marks:
        return replace(request, messages=_marked(request, caching))
    return replace(request, params={CACHE_KEY: caching.key, **request.params})


def _is_worth_it(request: ModelRequest, caching: PromptCaching) -> bool:
    """Return whether a prompt is cached; providers do not cache short ones."""
    if caching.always:
        return True
    if not caching.is_one_of_many:
        return False
    instructions = [message for message in request.messages if message["role"] == "system"]
    tokens = prompt_tokens(replace(request, messages=instructions, tools=()))
    return bool(instructions) and tokens >= prompt_cache_min_tokens(request.model)


def _marked(request: ModelRequest, caching: PromptCaching) -> list[Message]:
    messages = list(request.messages)
    ends = {len(messages) - 1} if caching.loops else set()
    systems = [place for place, message in enumerate(messages) if message["role"] == "system"]
    for place in ends.union(systems[:1]):
        messages[place] = _with_mark(messages[place], caching)
    return messages


def _with_mark(message: Message, caching: PromptCaching) -> Message:
    """Return a message with a mark at its end; one without content has nothing to mark."""
    content = message.get("content")
    if not content:
        return message
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else [*content]
    mark = {"type": "ephemeral"} | ({"ttl": caching.ttl} if caching.ttl else {})
    parts[-1] = {**parts[-1], "cache_control": mark}
    return {**message, "content": parts}
