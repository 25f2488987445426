"""Plans: what runs of an agent will do and cost."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from sleipnir.scheduler.runs.documents import about


class PlannedBoundsDocument(TypedDict):
    least: Annotated[float | None, about("null: unknown, as a price")]
    expected: Annotated[float | None, about("null without a sample")]
    most: Annotated[float | None, about("null: unknown, or without a bound")]


class PlannedTotalDocument(PlannedBoundsDocument):
    low: Annotated[float | None, about("from where in nine of ten cases; null without a sample")]
    high: float | None


class PlannedAmountsDocument(TypedDict):
    calls: PlannedBoundsDocument
    tokens_in: PlannedBoundsDocument
    tokens_out: PlannedBoundsDocument
    usd: PlannedBoundsDocument


class PlannedNodeDocument(PlannedAmountsDocument):
    id: str
    type: str
    visits: PlannedBoundsDocument


class PlannedSumDocument(TypedDict):
    calls: PlannedBoundsDocument
    tokens_in: PlannedBoundsDocument
    tokens_out: PlannedBoundsDocument
    usd: PlannedTotalDocument


class SampledFigureDocument(TypedDict):
    mean: float
    p90: float


class SampledAmountsDocument(TypedDict):
    calls: SampledFigureDocument
    tokens_in: SampledFigureDocument
    tokens_out: SampledFigureDocument
    usd: SampledFigureDocument
    seconds: Annotated[SampledFigureDocument, about("from begin to end; of a node all visits")]


class SampledNodeDocument(SampledAmountsDocument):
    id: str


class SampledRouteDocument(TypedDict):
    node: str
    index: int
    label: str
    lines: Annotated[int, about("runs that took it")]


class SampledRunsDocument(TypedDict):
    """What runs of this version did."""

    lines: Annotated[int, about("runs that have ended")]
    failed: int
    line: Annotated[SampledAmountsDocument, about("a run")]
    nodes: Annotated[list[SampledNodeDocument], about("a node in a run")]
    routes: list[SampledRouteDocument]


class FindingDocument(TypedDict):
    code: str
    severity: str
    node: str | None
    message: str
    hint: str | None
    file: str
    line: int
    column: int


class PlanDocument(TypedDict):
    agent: str
    version: Annotated[str, about("of the agent, 12 digits: a digest of what makes it act")]
    lines: Annotated[int, about("runs")]
    known_prompt_share: Annotated[
        float | None, about("of the calls that are certain, those whose prompt is known before")
    ]
    nodes: Annotated[list[PlannedNodeDocument], about("in one run, in file order")]
    per_line: Annotated[PlannedAmountsDocument, about("one run")]
    total: PlannedSumDocument
    time_s: float | None
    sample: None
    findings: list[FindingDocument]


class AgentPlanDocument(PlanDocument):
    """What `sleipnir plan AGENT --json` prints, and what its newest runs did."""

    recent: Annotated[
        SampledRunsDocument | None, about("the newest that have ended, at most 30; null: none has")
    ]
