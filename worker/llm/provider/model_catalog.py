"""Facts about models that are called directly: litellm's table, read without importing litellm."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from sleipnir.records import dataclass
from sleipnir.scheduler.config.model_table import entry_key, read_entries
from sleipnir.scheduler.config.models import Price
from sleipnir.scheduler.runs.model import Usage
from sleipnir.worker.llm.provider.openai_servers import SERVERS

_PER_MILLION = 1e6
_THRESHOLD = re.compile(r"input_cost_per_token(_above_(\d+)(k?)_tokens)")


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """An entry of the table."""

    mode: str | None = None  # the protocol by which it is called: chat, responses, completion …
    longest_reply: int | None = None  # tokens
    context: int | None = None  # the longest prompt, in tokens
    # Price for prompts longer than so many tokens, in ascending order; the first is for any.
    prices: tuple[tuple[int, Price], ...] = ()
    is_cheaper_at_times: bool = False  # by hour or day; only litellm can read that

    @property
    def price(self) -> Price | None:
        """The price for a prompt of ordinary length."""
        return self.prices[0][1] if self.prices else None

    def cost_usd(self, usage: Usage) -> float | None:
        """Return the cost of a call; None if the price is unknown."""
        due = [price for above, price in self.prices if usage.prompt_tokens > above]
        price = due[-1] if due else self.price
        return None if price is None else at_price(usage, price)


def at_price(usage: Usage, price: Price) -> float:
    """Return the cost of a usage at a price; prompt tokens include what the cache gave and got."""
    cached = price.prompt if price.cached is None else price.cached
    cache_write = price.prompt if price.cache_write is None else price.cache_write
    written, read = usage.cache_written_tokens, usage.cached_tokens
    return (
        (usage.prompt_tokens - read - written) * price.prompt
        + read * cached
        + written * cache_write
        + usage.completion_tokens * price.completion
    ) / _PER_MILLION


def facts_of(provider: str, model: str) -> ModelFacts:
    """Return what the table says of a model, which may be nothing."""
    return _table().get(entry_key(provider, model), _NOTHING)


_NOTHING = ModelFacts()


@cache
def _table() -> Mapping[tuple[str, str], ModelFacts]:
    """Return the table for providers that are called directly; empty if litellm is missing."""
    return {
        entry_key(provider, name): facts_in(entry)
        for name, entry in read_entries().items()
        if (provider := entry.get("litellm_provider", "")) in SERVERS
    }


def facts_in(entry: Mapping[str, Any]) -> ModelFacts:
    """Return the facts in an entry of litellm's."""
    longest, context = entry.get("max_output_tokens"), entry.get("max_input_tokens")
    above = sorted(
        (int(match[2]) * (1_000 if match[3] else 1), match[1])
        for key in entry
        if (match := _THRESHOLD.fullmatch(key))
    )
    prices: list[tuple[int, Price]] = []
    for threshold, suffix in ((0, ""), *above):
        price = _price(entry, suffix, prices[-1][1] if prices else None)
        if price is not None:
            prices.append((threshold, price))
    longest_reply = longest if isinstance(longest, int) else None
    return ModelFacts(
        entry.get("mode"),
        longest_reply,
        context if isinstance(context, int) else None,
        tuple(prices),
        is_cheaper_at_times="off_peak_pricing" in entry,
    )


def _price(entry: Mapping[str, Any], suffix: str, before: Price | None) -> Price | None:
    """Read a price; what is not given for longer prompts is as for shorter ones."""

    def per_million(key: str) -> float | None:
        given = entry.get(f"{key}{suffix}")
        return given * _PER_MILLION if isinstance(given, int | float) else None

    prompt = per_million("input_cost_per_token")
    completion = per_million("output_cost_per_token")
    cached = per_million("cache_read_input_token_cost")
    cache_write = per_million("cache_creation_input_token_cost")
    if before is not None:
        prompt = before.prompt if prompt is None else prompt
        completion = before.completion if completion is None else completion
        cached = before.cached if cached is None else cached
        cache_write = before.cache_write if cache_write is None else cache_write
    if prompt is None or completion is None:
        return None
    return Price(prompt=prompt, completion=completion, cached=cached, cache_write=cache_write)
