"""Several models for one question: if one does not reply, the next one is asked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import TypeAlias

from sleipnir.worker.llm.caller import MustWait
from sleipnir.worker.llm.client import BudgetRefused, ModelCallFailed, NotCalled, Reply

logger = logging.getLogger(__name__)

# Asks one model. Also takes whether another model follows, and the seconds left.
AskOne: TypeAlias = Callable[[str, bool, float | None], Reply]
# Why models have failed, by name.
Failures: TypeAlias = Mapping[str, ModelCallFailed]
NO_FAILURES: Failures = {}


def first_reply(
    models: Sequence[str], ask: AskOne, timeout_s: float | None, failed: Failures = NO_FAILURES
) -> Reply:
    """Return the reply of the first model that gives one, within the time for all of them.

    If none replies, the one that will be available first is asked again, last: the question then
    waits in that model's queue, and not in others that it would leave again.

    Args:
        failed: models that have failed already and are not asked.

    Raises:
        MustWait: none replied, but at least one may do so later; waits for the first of these.
        ModelCallFailed: none replied.
    """
    if len(models) == 1:
        return ask(models[0], False, timeout_s)
    models = [model for model in models if model not in failed]
    ends_at = None if timeout_s is None else monotonic() + timeout_s
    waits: dict[str, MustWait] = {}
    failures = dict(failed)
    for position, model in enumerate(models, 1):
        left_s = None if ends_at is None else ends_at - monotonic()
        if left_s is not None and left_s <= 0 and position > 1:
            break
        try:
            return ask(model, position < len(models), left_s)
        except MustWait as wait:
            waits[model] = wait
            logger.info("model %s: %s", model, wait)
        except ModelCallFailed as failure:
            failures[model] = failure
            logger.warning("model %s failed: %s", model, failure)
    while waits:
        soonest = min(waits, key=lambda model: waits[model].delay_s)
        if soonest == models[-1]:
            raise waits[soonest]
        del waits[soonest]
        try:
            return ask(soonest, False, None if ends_at is None else ends_at - monotonic())
        except ModelCallFailed as failure:
            failures[soonest] = failure
    raise together(failures)


def together(failures: Failures) -> ModelCallFailed:
    """Combine failures into one: the messages of all, and the facts they have in common."""
    delays = [failure.retry_after_s for failure in failures.values()]
    known = [delay for delay in delays if delay is not None]
    # A model that asked for no pause may be asked again at once.
    retry_after_s = min(known) if len(known) == len(delays) else None
    text = "; ".join(f"{model}: {failure}" for model, failure in failures.items())
    kinds = {failure.kind for failure in failures.values()}
    statuses = {failure.status for failure in failures.values()}
    return _kind_of(failures)(
        text,
        kinds.pop() if len(kinds) == 1 else "other",
        status=statuses.pop() if len(statuses) == 1 else None,
        retry_after_s=retry_after_s,
    )


def _kind_of(failures: Failures) -> type[ModelCallFailed]:
    if any(isinstance(failure, BudgetRefused) for failure in failures.values()):
        return BudgetRefused
    uncalled = all(isinstance(failure, NotCalled) for failure in failures.values())
    return NotCalled if uncalled else ModelCallFailed
