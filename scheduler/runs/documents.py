"""The JSON of what runs record: usage, failures, guarded calls. Imported for types only."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict


def about(text: str) -> Any:
    """Say what a field means, for the documentation."""
    return Field(description=text)


# A keyword cannot be a field of a class.
Tried = TypedDict("Tried", {"try": Annotated[int, about("counts from 1; each retry adds one")]})


class UsageDocument(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cached_tokens: Annotated[int, about("part of the prompt that the provider had cached")]
    cache_written_tokens: Annotated[int, about("part of the prompt that it charged for caching")]
    cost_usd: Annotated[float | None, about("null: a price is not known")]
    economy_usd: Annotated[float, about("part of the cost: of calls in batches of providers")]


class FailureDocument(TypedDict):
    code: str
    message: str
    node: str | None


class NodeFailureDocument(FailureDocument):
    step: int
    index: Annotated[int | None, about("of an item of a map")]


class GuardedCallDocument(TypedDict):
    function: str
    arguments: Annotated[dict[str, Any], about("with secrets masked")]


class ProgressDocument(TypedDict):
    """How many items of a map are done."""

    done: int
    total: int


class ItemDocument(TypedDict):
    index: int
    state: str
    ms: int | None
    usage: UsageDocument | None
    reason: str | None
    node: Annotated[str | None, about("where it stands or failed")]
    nodes: Annotated[list[str], about("that it went through; the last 100")]


class CallSumDocument(TypedDict):
    """What model calls of a kind have used."""

    calls: Annotated[int | None, about("those to a provider; null: not known")]
    seconds: Annotated[float | None, about("time of all calls; null: not known")]
    usage: UsageDocument


class SpendFiguresDocument(TypedDict):
    calls: Annotated[int, about("that were answered")]
    tokens_in: Annotated[int, about("of prompts")]
    cached: Annotated[int, about("part of these that providers had cached")]
    tokens_out: int
    cost_usd: Annotated[float, about("of the calls whose price is known")]
    economy_usd: Annotated[float, about("part of it: of calls in batches of providers")]
    unknown_price_calls: int
    failed_calls: Annotated[int, about("without a reply, counted besides `calls`")]
    waited_s: Annotated[float, about("that the answered calls waited for limits, together")]
    took_s: Annotated[
        dict[str, float | None],
        about("`p50`, `p95` of the answered calls: about, from numbers by powers of two"),
    ]


class SpendRowDocument(SpendFiguresDocument):
    """What was spent for the names that were asked for; the others are not there."""

    hour: NotRequired[Annotated[str, about("UTC, such as `2026-11-27T14`")]]
    day: NotRequired[Annotated[str, about("UTC, such as `2026-11-27`")]]
    agent: NotRequired[Annotated[str | None, about("of root runs, with their child runs")]]
    batch: NotRequired[Annotated[str | None, about("null: runs of no batch")]]
    node: NotRequired[Annotated[str | None, about("of that agent")]]
    model: NotRequired[str | None]
    label: NotRequired[Annotated[str | None, about("its value; null: runs without it")]]


class SpendDocument(TypedDict):
    """What `spend` prints."""

    rows: Annotated[list[SpendRowDocument], about("in order of time, the dearest first")]
    total: SpendFiguresDocument


class EndedFiguresDocument(TypedDict):
    runs: Annotated[int, about("root runs that have ended")]
    succeeded: int
    failed: int
    cancelled: int
    timed_out: int
    took_s: Annotated[
        dict[str, float | None], about("`p50`, `p95`: about, from numbers by powers of two")
    ]
    cost_usd: Annotated[dict[str, float | None], about("the same, of runs of known cost")]


class EndedRowDocument(EndedFiguresDocument):
    """The runs of the names that were asked for; the others are not there."""

    hour: NotRequired[Annotated[str, about("UTC, such as `2026-11-27T14`")]]
    day: NotRequired[Annotated[str, about("UTC, such as `2026-11-27`")]]
    agent: NotRequired[str | None]
    batch: NotRequired[Annotated[str | None, about("null: runs of no batch")]]


class EndedDocument(TypedDict):
    """What `stats` prints."""

    rows: Annotated[list[EndedRowDocument], about("in order of their names")]
    total: EndedFiguresDocument


class RecentSpendingDocument(TypedDict):
    since: Annotated[str, about("the first day, UTC")]
    days: Annotated[list[SpendRowDocument], about("each of them, today the last")]
    nodes: Annotated[list[SpendRowDocument], about("the dearest, with their agents")]
    models: Annotated[list[SpendRowDocument], about("the dearest")]
    total: SpendFiguresDocument
