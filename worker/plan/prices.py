"""What calls of a model may cost, and how long its replies may be."""

from __future__ import annotations

from sleipnir.graphs.plan.interval import NOTHING, Interval, exactly
from sleipnir.graphs.schema import Graph, LlmNode
from sleipnir.records import dataclass
from sleipnir.scheduler.config.models import ModelSettings, Price
from sleipnir.worker.llm.economy.providers import takes_batches
from sleipnir.worker.llm.limits.gate import BATCH_PRICE
from sleipnir.worker.llm.provider.pricing import Pricing
from sleipnir.worker.plan.amounts import Amounts

_PER_MILLION = 1e6
WHOLE = exactly(1)
# Tokens; providers cache no shorter prompts.
_LEAST_CACHED = 1_024


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """What is known of all models behind a name, any of which may be called."""

    prices: tuple[Price | None, ...]  # USD per million tokens
    longest_reply: int  # tokens
    context: int | None  # tokens that the shortest of them reads; None: unknown
    has_batches: bool = False  # calls of the first of them can wait for batches

    @property
    def is_priced(self) -> bool:
        """Whether the price of each of them is known."""
        return None not in self.prices

    def cost(
        self,
        calls: Interval,
        tokens_in: Interval,
        tokens_out: Interval,
        prompt: int = 0,
        share: Interval = WHOLE,
    ) -> Amounts:
        """Return the amounts with what they cost.

        Args:
            prompt: tokens of one prompt, of which a provider may have cached one that is long.
            share: of the price.
        """
        known = [price for price in self.prices if price is not None]
        if not known:
            return Amounts(calls, tokens_in, tokens_out, NOTHING, is_priced=calls.most == 0)
        is_long = prompt >= _LEAST_CACHED
        least = [_if_cached(price) if is_long else price.prompt for price in known]
        per_prompt = Interval(min(least), max(map(_most_of_prompt, known)))
        completions = [price.completion for price in known]
        per_reply = Interval(min(completions), max(completions))
        usd = tokens_in * _per_token(per_prompt) + tokens_out * _per_token(per_reply)
        return Amounts(calls, tokens_in, tokens_out, usd * share, self.is_priced)


class PlannedModels:
    """The models of an agent, each looked up once."""

    def __init__(self, settings: ModelSettings, *, economy: bool = False) -> None:
        self._economy = economy
        self._settings = settings
        self._pricing = Pricing(settings)
        self._known: dict[str, PlannedModel] = {}
        self._unpriced: dict[str, None] = {}

    @property
    def unpriced(self) -> list[str]:
        """The models looked up so far whose price is not known."""
        return list(self._unpriced)

    def find(self, name: str) -> PlannedModel:
        """Return what is known of a model or alias; of an empty name, nothing."""
        if name not in self._known:
            chain = self._settings.chain(name) if name else ()
            prices = tuple(self._pricing.price_of(model) for model in chain)
            for model, price in zip(chain, prices, strict=True):
                if price is None:
                    self._unpriced[model] = None
            assumed = self._settings.max_output_tokens
            longest = max(
                (self._pricing.longest_reply(model) or assumed for model in chain), default=assumed
            )
            contexts = [self._pricing.context(model) for model in chain]
            known = [context for context in contexts if context is not None]
            self._known[name] = PlannedModel(
                prices or (None,),
                longest,
                min(known, default=None),
                has_batches=bool(chain) and takes_batches(chain[0], self._settings),
            )
        return self._known[name]

    def share_of(self, model: PlannedModel, node: LlmNode, graph: Graph) -> Interval:
        """Return what part of the price calls of a node have, with --economy."""
        if not (self._economy and model.has_batches and graph.waits_for_batches(node)):
            return WHOLE
        # Extractors are called live.
        return Interval(BATCH_PRICE, BATCH_PRICE if node.output_schema is None else 1)


def _if_cached(price: Price) -> float:
    return price.prompt if price.cached is None else min(price.prompt, price.cached)


def _most_of_prompt(price: Price) -> float:
    return price.prompt if price.cache_write is None else max(price.prompt, price.cache_write)


def _per_token(per_million: Interval) -> Interval:
    return Interval(per_million.least / _PER_MILLION, per_million.most / _PER_MILLION)
