"""The reranker of a search: a model that ranks what was found."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.knowledge.address import content_hash
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.failures import BUDGET_REFUSES
from sleipnir.worker.conversation.transcript import Transcript
from sleipnir.worker.knowledge.errors import KnowledgeFailed, NotYet
from sleipnir.worker.llm.caller import MustWait, caller_of
from sleipnir.worker.llm.client import BudgetRefused, ModelCallFailed

if TYPE_CHECKING:
    from sleipnir.worker.llm.models import Models
    from sleipnir.worker.visit.context import Visit

_CALL = "reranked"


@dataclass(frozen=True, slots=True)
class RerankCalls:
    """Calls a reranker on behalf of one visit; a call that was paid for is not repeated."""

    visit: Visit[Any]
    model: str
    models: Models
    transcript: Transcript

    def order(self, query: str, texts: Sequence[str], top_n: int) -> Sequence[tuple[int, float]]:
        """Return the best texts: the position of each, and its score.

        Raises:
            KnowledgeFailed: the model failed.
            NotYet: it may be called later.
        """
        call = content_hash(json.dumps([self.model, query, *texts, top_n]))
        known = self.transcript.noted(_CALL, call)
        if known is not None:
            return [(place, score) for place, score in known["order"]]
        limit_s, caller = (
            self.visit.seconds_left(None),
            caller_of(self.visit, f"rerank:{call[:16]}"),
        )
        try:
            reranked = self.models.rerank(self.model, query, texts, top_n, caller, limit_s)
        except MustWait as wait:
            raise NotYet(wait.delay_s, wait.reason, for_person=wait.for_person) from wait
        except BudgetRefused as refusal:
            raise NodeFailed(BUDGET_REFUSES, refusal.message) from refusal
        except ModelCallFailed as failure:
            raise rerank_failed(self.model, failure) from failure
        self.transcript.note({_CALL: call, "order": list(reranked.order)}, reranked.usage)
        return reranked.order


def rerank_failed(model: str, failure: ModelCallFailed) -> KnowledgeFailed:
    """Return the failure of a search whose reranker failed."""
    return KnowledgeFailed(f"rerank with {model} failed: {failure.message}")
