"""Which providers take requests in batches, and how many at a time."""

from __future__ import annotations

from sleipnir.records import dataclass
from sleipnir.scheduler.config.economy import has_batches
from sleipnir.scheduler.config.models import ModelSettings, ProviderBatches

_MOST_STORED_BYTES = 32 * 1024 * 1024
_MOST_REQUESTS = 50_000
_MOST_BYTES = 200_000_000
_NO_LIMIT = 10**15


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """What a group may have at most, and its provider."""

    requests: int
    bytes: int
    stored: int  # bytes in Redis
    tokens: int  # with the provider at a time
    open: int  # groups with the provider at a time
    send_after_s: float


def takes_batches(model: str, settings: ModelSettings) -> bool:
    """Return whether requests to a model can be sent in batches."""
    return has_batches(model.partition(":")[0], settings)


def limits_of(provider: str, settings: ModelSettings) -> GroupLimits:
    """Return the limits of a provider's groups."""
    configured = settings.providers.get(provider)
    batch = ProviderBatches() if configured is None else configured.batch
    return GroupLimits(
        requests=min(batch.max_requests or _MOST_REQUESTS, _MOST_REQUESTS),
        bytes=min(batch.max_bytes or _MOST_BYTES, _MOST_BYTES),
        stored=_MOST_STORED_BYTES,
        tokens=batch.enqueued_tokens or _NO_LIMIT,
        open=batch.open,
        send_after_s=batch.send_after_s,
    )
