"""What waits for batches of providers, as JSON."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from sleipnir.scheduler.runs.documents import about


class CollectionDocument(TypedDict):
    """Requests that are sent together next."""

    name: Annotated[str, about("the model")]
    provider: str
    requests: int
    age_s: Annotated[float, about("of the oldest")]
    trouble: Annotated[str | None, about("why they are not sent")]


class GroupDocument(TypedDict):
    """Requests that were sent together, or are about to be."""

    id: str
    provider: str
    collection: Annotated[str, about("the model")]
    state: Annotated[str, about("filling, ready, sending, sent, ended, halving, told")]
    batch_id: Annotated[str | None, about("the provider's; null: not known yet")]
    status: Annotated[str | None, about("the provider's word")]
    requests: int
    completed: int
    failed: int
    age_s: float
    trouble: Annotated[str | None, about("why it does not get on, or was refused")]


class EconomyDocument(TypedDict):
    """All of them."""

    collections: list[CollectionDocument]
    groups: list[GroupDocument]
