"""Batches."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from sleipnir.scheduler.client.limits.report import BudgetLine
from sleipnir.scheduler.runs.documents import NodeFailureDocument, about
from sleipnir.scheduler.views.types.agents import TypicalDocument
from sleipnir.scheduler.views.types.economy import EconomyDocument
from sleipnir.scheduler.views.types.records import PageDocument, SearchedDocument


class BatchUsageDocument(TypedDict):
    total_tokens: int
    cost_usd: float | None


class BatchDocument(TypedDict):
    batch: str
    agent: str | None
    lines: Annotated[int | None, about("of the input; null: not submitted by `sleipnir batch`")]
    runs: int
    succeeded: int
    open: Annotated[int, about("queued or running")]
    waiting: int
    failed: int
    cancelled: int
    timed_out: int
    usage: Annotated[BatchUsageDocument, about("of ended runs, removed ones included")]
    removed: Annotated[int, about("ended runs that are no longer stored")]
    last_activity: str | None
    age_s: float | None


class BatchNodeDocument(TypedDict):
    """A node, over all stored runs of a batch."""

    id: str
    visits: int
    failed: Annotated[int, about("visits that failed, tolerated or not; for a map, items")]
    retried: Annotated[int, about("further attempts of its visits")]
    calls: Annotated[int, about("answered calls of models, over all tries, child runs included")]
    extraction_calls: Annotated[int, about("those that found or repaired a structured reply")]
    cached: Annotated[int, about("questions that `cache` answered without a call")]
    tokens: int
    cost_usd: Annotated[float | None, about("null: a price is not known")]
    share: Annotated[float | None, about("of the known cost of all nodes; null: nothing was paid")]


class BatchRouteDocument(TypedDict):
    node: str
    index: Annotated[int, about("from 1 in file order; a switch's default is its last")]
    label: Annotated[str, about("its condition, the case, or `else`")]
    to: list[str]
    lines: Annotated[int, about("that took it at least once")]


class BatchStatusDocument(BatchDocument):
    """What `batch --status` prints."""

    nodes: list[BatchNodeDocument]
    routes: list[BatchRouteDocument]


class SearchedBatchesDocument(SearchedDocument):
    batches: int


class BatchRateDocument(TypedDict):
    total: Annotated[int, about("expected number of runs, as far as known")]
    rate_per_minute: Annotated[float | None, about("runs that ended in the last minute")]
    eta_s: Annotated[float | None, about("time until all have ended at that rate")]
    projected_usd: Annotated[float | None, about("projected cost of all runs")]


class BatchProgressDocument(BatchDocument, BatchRateDocument):
    """A batch, and how it proceeds."""


class BatchPageDocument(PageDocument):
    """A page of batches, as `batches` prints it."""

    batches: list[BatchDocument]
    searched: SearchedBatchesDocument


class BatchListDocument(PageDocument):
    batches: list[BatchProgressDocument]
    searched: SearchedBatchesDocument


class BatchErrorDocument(TypedDict):
    count: int
    code: str
    node: str | None
    example: str
    text: Annotated[str, about("common part of their messages, to search runs by")]
    cause: Annotated[str, about("finds runs that failed alike")]
    caused_by: Annotated[
        NodeFailureDocument | None,
        about("of the example: its first tolerated failure"),
    ]
    run_id: str
    run_ids: Annotated[list[str], about("of the newest three")]
    by_time: Annotated[list[int], about("in 24 equal parts of the time in which any failed")]
    first_at: str
    newest_at: str


class BatchErrorsDocument(TypedDict):
    """Why the newest failed runs of a batch failed."""

    errors_of: Annotated[int, about("failed runs examined")]
    errors: Annotated[list[BatchErrorDocument], about("their failures, grouped")]


class BatchEndsDocument(TypedDict):
    at: Annotated[str, about("its beginning")]
    succeeded: int
    failed: Annotated[int, about("cancelled and timed out included")]


class BatchBinDocument(TypedDict):
    least: float
    most: Annotated[float | None, about("below this; null: no bound")]
    runs: int


class BatchSpreadDocument(TypedDict):
    """How the ended runs of a batch are spread over time, duration and cost."""

    read: Annotated[int, about("runs that were read: all, or about 1,000 spread evenly")]
    step_s: Annotated[float, about("length of each part of `ends`")]
    ends: Annotated[list[BatchEndsDocument], about("estimated, unless all were read")]
    elapsed_s: list[BatchBinDocument]
    cost_usd: list[BatchBinDocument]
    typical: TypicalDocument


class BatchReportDocument(BatchProgressDocument):
    spread: BatchSpreadDocument
    economy: Annotated[
        EconomyDocument, about("of the models whose batches its runs wait for: of all runs")
    ]
    budget: BudgetLine | None
