"""On whose behalf a model is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

from sleipnir.records import dataclass
from sleipnir.worker.llm.client import Listener
from sleipnir.worker.visit.cancellation import Cancellation

if TYPE_CHECKING:
    from sleipnir.scheduler.store.economy.requests import NewRequest
    from sleipnir.worker.visit.context import Visit


def _nobody_listens(_tokens: int, _budget: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Caller:
    """The run and visit that a model call is accounted to."""

    run_id: str
    root: str  # the root run, as a run's budget includes its children
    batch: str | None
    node: str
    # The same whenever this call is tried again, after a wait or after a crash.
    key: str
    attempt: int = 1  # of the node
    has_waited: bool = False  # whether its visit has waited for anything, such as a limit
    cache_s: float | None = None  # how long replies to equal requests are cached; None: not at all
    shares: bool = True  # whether it waits for an equal call that is under way
    budget_usd: float | None = None  # of the root run; None: the default for all runs
    batch_budget_usd: float | None = None  # of its batch; None: the default for all batches
    recorded: bool = False  # whether the run's calls are recorded
    replay: str | None = None  # digest of the recording that replies instead of a model
    secrets: tuple[str, ...] = ()  # values that recordings must not contain
    # Receives the reply while it is streamed, for people who watch; None: nobody does.
    listener: Listener | None = field(default=None, compare=False)
    # Called with the tokens that a budget limits the reply to, and its name.
    on_limited: Callable[[int, str], object] = field(default=_nobody_listens, compare=False)
    # Aborts the call when the run is over.
    cancellation: Cancellation | None = field(default=None, compare=False)

    @property
    def awaits_reply(self) -> bool:
        """Whether the run still needs what the model replies."""
        return self.cancellation is None or not self.cancellation.is_set()


def caller_of(visit: Visit[Any], key: str) -> Caller:
    """Return on whose behalf a visit calls a model; `key` distinguishes its calls."""
    context = visit.context
    return Caller(
        run_id=visit.run_id,
        root=context.root or visit.run_id,
        batch=context.batch,
        budget_usd=context.budget_usd,
        batch_budget_usd=context.batch_budget_usd,
        node=visit.node_id,
        key=f"{visit.idempotency_key}:{key}",
        recorded=context.recorded,
        replay=context.replay,
        has_waited=visit.has_waited,
        secrets=visit.secrets,
        cancellation=visit.cancelled,
    )


class InBatch(Exception):
    """The reply comes with a batch of the provider; the visit is to wait for it."""

    def __init__(self, request: NewRequest) -> None:
        self.request = request
        super().__init__(f"waits for a batch of {request.collection}")


class MustWait(Exception):
    """A limit delays a model call; the visit may come back after `delay_s`.

    Args:
        for_person: whether a person ends the wait, so that `delay_s` is only the polling interval.
    """

    def __init__(self, delay_s: float, reason: str, *, for_person: bool = False) -> None:
        self.delay_s = delay_s
        self.reason = reason
        self.for_person = for_person
        super().__init__(reason)
