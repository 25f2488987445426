"""The documents of stored evaluations: a list, and single ones."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from sleipnir.errors import SleipnirError
from sleipnir.graphs.document.finding import cut
from sleipnir.records import dataclass
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.queries.batches import BatchRow
from sleipnir.scheduler.testing.evaluation.batches import PREFIX, EvaluationBatch
from sleipnir.scheduler.testing.evaluation.comparing import pairs_of
from sleipnir.scheduler.testing.evaluation.file import evaluation_files
from sleipnir.scheduler.testing.evaluation.report import Flip
from sleipnir.scheduler.testing.evaluation.rows import digest_of
from sleipnir.scheduler.testing.evaluation.stored import (
    ScoredEvaluation,
    StoredEvaluation,
    WrittenEvaluation,
    read_stored,
    read_written,
    score_stored,
)

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types import evaluations as types

# Batches that the list is made of, the newest ones.
_MOST_LISTED: Final = 300
_MOST_FLIPS: Final = 40
_MOST_CHARACTERS: Final = 200  # of what a row is given, should give, and gave
# Differences are told to a tenth.
_PARTS: Final = 10


@dataclass(frozen=True, slots=True)
class ShownEvaluation:
    """An evaluation for its readers: a document, and the lines that the command prints."""

    document: types.EvaluationDocument
    lines: Sequence[str]


def evaluations_document(client: Client, agent: str | None = None) -> types.EvaluationListDocument:
    """Return the evaluations that were run or that agents have here, the last active first."""
    page = client.queries.list_batches(_MOST_LISTED, prefix=PREFIX)
    stored: dict[tuple[str, str], list[tuple[EvaluationBatch, BatchRow]]] = {}
    for row in page.entries:
        batch = EvaluationBatch.named(row.name)
        if batch is not None and agent in (None, batch.agent):
            stored.setdefault((batch.agent, batch.evaluation), []).append((batch, row))
    here = {
        (name, evaluation)
        for name, directory in client.search.names().items()
        if agent in (None, name)
        for evaluation in evaluation_files(directory)
    }
    never = sorted(here - stored.keys())
    return {
        "evaluations": [
            *(_listed(key, batches, is_here=key in here) for key, batches in stored.items()),
            *(_listed(key, (), is_here=True) for key in never),
        ]
    }


def _listed(
    key: tuple[str, str], batches: Sequence[tuple[EvaluationBatch, BatchRow]], *, is_here: bool
) -> types.ListedEvaluationDocument:
    of_rows = [(batch, row) for batch, row in batches if batch.check is None]
    costs = [row.cost_usd for _, row in batches]
    return {
        "agent": key[0],
        "eval": key[1],
        "is_here": is_here,
        "versions": len({batch.version for batch, _ in of_rows}),
        "runs": sum(row.runs for _, row in of_rows),
        "open": sum(row.open + row.waiting for _, row in batches),
        "cost_usd": None if None in costs else sum(cost or 0.0 for cost in costs),
        "last_activity": _last(row for _, row in batches),
    }


def show_evaluation(
    client: Client,
    agent: str,
    name: str,
    *,
    baseline: str | None = None,
    digest: str | None = None,
) -> ShownEvaluation | None:
    """Return an evaluation with the scores of its versions; None if nothing is known of it.

    Args:
        baseline: the version to compare with; None: the accepted one, or else the oldest.
        digest: of the rows that are scored; None: of those that were run last.
    """
    stored = read_stored(client, agent, name)
    written, scored, problem = None, None, None
    try:
        written = read_written(client, agent, name)
        if written is not None:
            scored = score_stored(client, stored, written, baseline=baseline, digest=digest)
    except SleipnirError as error:
        problem = str(error)
    if problem is None and written is None:
        if not stored.versions:
            return None
        problem = "its file is not found here, so nothing is scored"
    elif problem is None and scored is None and stored.versions:
        problem = "other rows were run, or on recorded replies, so nothing is scored"
    document = _document(agent, name, stored, written, scored, problem)
    return ShownEvaluation(document, [] if scored is None else list(scored.report.lines()))


def _document(
    agent: str,
    name: str,
    stored: StoredEvaluation,
    written: WrittenEvaluation | None,
    scored: ScoredEvaluation | None,
    problem: str | None,
) -> types.EvaluationDocument:
    summary: types.EvaluationSummaryDocument = {
        "agent": agent,
        "eval": name,
        "versions": [],
        "compared": [],
        "passed": None,
    }
    flips: list[Flip] = []
    if scored is not None:
        summary, flips = scored.report.document(), scored.report.flips()
    return {
        **summary,
        "problem": problem,
        "rows": None if scored is None else digest_of(scored.rows),
        "row_count": 0 if scored is None else len(scored.rows),
        "repeat": 1 if scored is None else scored.evaluation.given.repeat,
        "losses": [] if scored is None else list(scored.report.losses()),
        "bounds": {} if scored is None else _bounds(scored),
        "differences": [] if scored is None else list(_differences(scored)),
        "flips": [] if scored is None else list(_flips(scored, _first_and_last(flips))),
        "flips_total": len(flips),
        "stored": [_stored(batch, row, written, scored) for batch, row in stored.versions],
    }


def _bounds(scored: ScoredEvaluation) -> dict[str, float]:
    gates = scored.evaluation.gates
    return {name: gate.drop for name, gate in gates.items() if gate.drop is not None}


def _differences(scored: ScoredEvaluation) -> Iterator[types.CheckDifferencesDocument]:
    """Yield how each check of each version differs from the baseline, row by row."""
    baseline, *others = scored.versions
    names = [check.name for check in scored.evaluation.checks]
    for version in others:
        for check in names:
            pairs = pairs_of(check, baseline, version).values()
            different = [new - old for old, new in pairs if new != old]
            tenths = Counter(round(difference * _PARTS) for difference in different)
            yield {
                "name": version.of.name,
                "check": check,
                "same": len(pairs) - len(different),
                "bins": [
                    {"difference": tenth / _PARTS, "rows": tenths[tenth]}
                    for tenth in range(-_PARTS, _PARTS + 1)
                ],
            }


def _first_and_last(flips: Sequence[Flip]) -> Sequence[Flip]:
    """Return the rows that lost most, and those that won most, if there are too many."""
    half = _MOST_FLIPS // 2
    return flips if len(flips) <= _MOST_FLIPS else [*flips[:half], *flips[-half:]]


def _flips(scored: ScoredEvaluation, flips: Sequence[Flip]) -> Iterator[types.FlipDocument]:
    rows = {row.id: row for row in scored.rows}
    runs = {version.of.name: version.of.runs for version in scored.versions}
    baseline = scored.versions[0].of.runs
    for flip in flips:
        row = rows[flip.row]
        outputs = (some[flip.row][0].output for some in (baseline, runs[flip.name]))
        yield {
            "name": flip.name,
            "check": flip.check,
            "row": flip.row,
            "given": _excerpt(row.line.prompt or row.line.state),
            "expected": _excerpt(row.expected),
            "before": flip.before,
            "after": flip.after,
            "outputs": [_excerpt(output) for output in outputs],
            "runs": list(flip.runs),
        }


def _excerpt(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "" if value is None else cut(text, _MOST_CHARACTERS)


def _stored(
    batch: EvaluationBatch,
    row: BatchRow,
    written: WrittenEvaluation | None,
    scored: ScoredEvaluation | None,
) -> types.StoredVersionDocument:
    shown = () if scored is None else [each.of.version for each in scored.versions]
    is_same = scored is not None and digest_of(scored.rows) == batch.rows
    return {
        "version": batch.version,
        "rows": batch.rows,
        "row_count": None if written is None else written.counts.get(batch.rows),
        "batch": row.name,
        "runs": row.runs,
        "open": row.open + row.waiting,
        "last_activity": _last([row]),
        "is_scored": is_same and batch.version in shown,
        "is_current": written is not None and batch.version == written.current,
    }


def _last(rows: Iterable[BatchRow]) -> str | None:
    last = max((row.last_activity or 0 for row in rows), default=0)
    return to_rfc3339(last) if last else None
