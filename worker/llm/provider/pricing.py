"""What models cost and how long their replies may get: as configured, else as litellm knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.config.models import ModelSettings, Price

# It imports litellm, which takes seconds.
with lazy_imports():
    from sleipnir.worker.llm.provider import gateway


@dataclass(frozen=True, slots=True)
class Pricing:
    """Of all models; asked only where there are budgets."""

    settings: ModelSettings

    def price_of(self, model: str) -> Price | None:
        """A model's price; None if it is not known."""
        if (price := self.settings.prices.get(model)) is not None:
            return price
        known = _known(model)
        prompt, completion = (known.get(f"{of}_cost_per_token") for of in ("input", "output"))
        if prompt is None or completion is None:
            return None
        return Price(prompt=prompt * 1e6, completion=completion * 1e6)

    def longest_reply(self, model: str) -> int | None:
        """The most tokens of a model's reply; None if that is not known."""
        longest = _known(model).get("max_output_tokens")
        return longest if isinstance(longest, int) else None


def _known(model: str) -> dict[str, Any]:
    return gateway.known(model)
