"""Evaluations of agents."""

from __future__ import annotations

from typing import Annotated, Literal

from typing_extensions import TypedDict

from sleipnir.scheduler.runs.documents import about


class CheckMeanDocument(TypedDict):
    """A version's mean in a check, with its 95 % interval."""

    mean: Annotated[float | None, about("from 0 to 1; null: no row has a score")]
    low: float | None
    high: float | None
    n: Annotated[int, about("rows with a score")]
    unjudged: Annotated[int, about("rows of which a judge gave no score")]


class EvaluatedVersionDocument(TypedDict):
    name: Annotated[str, about("`baseline`, `current`, or how it is called otherwise")]
    version: Annotated[str, about("of the agent, 12 digits")]
    rows: Annotated[int, about("rows that have been run")]
    failed: Annotated[int, about("rows of which no run succeeded")]
    inherited_rows: Annotated[int, about("rows whose runs go on from the baseline's")]
    checks: dict[str, CheckMeanDocument]
    cost_usd: Annotated[float | None, about("of all rows; null: a price is not known")]
    judge_usd: Annotated[float | None, about("of judges, apart; null: a price is not known")]
    tokens: int
    elapsed_s: float


class ComparedCheckDocument(TypedDict):
    """A check of a version beside the baseline's, over the rows of both."""

    name: Annotated[str, about("of the version")]
    check: str
    n: Annotated[int, about("rows that both have")]
    difference: Annotated[float, about("of the means, with its 95 % interval")]
    low: float | None
    high: float | None
    won: Annotated[int, about("rows that have a higher score")]
    lost: Annotated[int, about("rows that have a lower score")]
    p: Annotated[float | None, about("of a pass or fail: McNemar's, corrected by Holm")]
    verdict: Annotated[
        Literal["kept", "lost", "open"] | None, about("null: nothing is demanded of it")
    ]
    rows_needed: Annotated[int | None, about("rows that would decide what is open")]


class EvaluationSummaryDocument(TypedDict):
    """What `sleipnir eval --json` prints."""

    agent: str
    eval: str
    versions: Annotated[list[EvaluatedVersionDocument], about("the baseline first")]
    compared: list[ComparedCheckDocument]
    passed: Annotated[bool | None, about("null: there is no gate")]


class DifferenceBinDocument(TypedDict):
    """Rows whose scores differ from the baseline's by about as much."""

    difference: Annotated[float, about("give or take 0.05")]
    rows: int


class CheckDifferencesDocument(TypedDict):
    name: Annotated[str, about("of the version")]
    check: str
    same: Annotated[int, about("rows with the same score; they are in no part")]
    bins: list[DifferenceBinDocument]


class FlipDocument(TypedDict):
    """A row that a version and the baseline score differently."""

    name: Annotated[str, about("of the version")]
    check: str
    row: Annotated[str, about("its id")]
    given: Annotated[str, about("the beginning of what runs are given")]
    expected: Annotated[str, about("the beginning of it")]
    before: Annotated[float, about("the baseline's score")]
    after: float
    outputs: Annotated[list[str], about("how both outputs begin, the baseline's first")]
    runs: Annotated[list[str], about("ids of both runs, the baseline's first")]


class StoredVersionDocument(TypedDict):
    """The runs of a version that are stored."""

    version: str
    rows: Annotated[str, about("digest of the rows")]
    row_count: Annotated[int | None, about("how many those are; null: not those of the file")]
    batch: str
    runs: int
    open: Annotated[int, about("queued, running, or waiting for a person")]
    last_activity: str | None
    is_scored: Annotated[bool, about("whether it is among `versions`")]
    is_current: Annotated[bool, about("whether it is the agent as it is now")]


class EvaluationDocument(EvaluationSummaryDocument):
    problem: Annotated[str | None, about("why nothing is scored; null: it is")]
    rows: Annotated[str | None, about("digest of the rows that are scored")]
    row_count: int
    repeat: Annotated[int, about("runs of each row")]
    losses: Annotated[list[str], about("why the gate is not passed")]
    differences: Annotated[list[CheckDifferencesDocument], about("from the baseline")]
    flips: Annotated[
        list[FlipDocument],
        about("those that lost most first; of more than 40, 20 that won most last"),
    ]
    flips_total: int
    stored: Annotated[list[StoredVersionDocument], about("newest first, of 100 batches")]
    bounds: Annotated[dict[str, float], about("by check: what it may lose at most")]


class ListedEvaluationDocument(TypedDict):
    agent: str
    eval: str
    is_here: Annotated[bool, about("whether this monitor finds its file")]
    versions: Annotated[int, about("of which runs are stored")]
    runs: int
    open: int
    cost_usd: Annotated[float | None, about("judges included; null: a price is not known")]
    last_activity: Annotated[str | None, about("null: it was never run")]


class EvaluationListDocument(TypedDict):
    evaluations: list[ListedEvaluationDocument]
