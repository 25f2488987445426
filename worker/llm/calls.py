"""The model calls of one visit: one model, one set of sampling settings, one time limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from scheduler.run import NO_USAGE, Usage
from worker.llm.client import Message, ModelCallFailed, complete
from worker.visit import Visit


@dataclass(slots=True)
class ModelCalls:
    """Calls the model for a visit, within the time it has left, and adds up what that used."""

    visit: Visit[Any]
    model: str
    temperature: float | None = None
    top_p: float | None = None
    reasoning_effort: str | None = None
    # The node's own limit, over all its tries; the run's is kept as well.
    timeout_s: float | None = None
    usage: Usage = NO_USAGE

    def complete(self, messages: Sequence[Message]) -> str:
        """The model's answer.

        Raises:
            ModelCallFailed: also if there is no model, or no time left to ask.
        """
        if not self.model:
            raise ModelCallFailed("no model set in the graph or as engine default")
        left = self.visit.seconds_left(self.timeout_s)
        if left is not None and left <= 0:
            raise ModelCallFailed("timed out before the model was called")
        self.visit.narrate("llm_call", model=self.model, tools=())
        completion = complete(
            self.model,
            messages,
            temperature=self.temperature,
            top_p=self.top_p,
            reasoning_effort=self.reasoning_effort,
            timeout_s=left,
        )
        self.usage += completion.usage
        self.visit.log("llm", self.visit.mask(completion.text))
        return completion.text

    def node_seconds_left(self) -> float | None:
        """What remains of the node's own limit; None without one."""
        if self.timeout_s is None:
            return None
        return self.timeout_s - self.visit.age_s - (monotonic() - self.visit.began_at)
