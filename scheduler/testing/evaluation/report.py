"""What an evaluation says: as a document, as a table, and as a page of Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.document.finding import printable
from sleipnir.records import dataclass
from sleipnir.scheduler.testing.evaluation.comparing import (
    Compared,
    compare,
    is_below_min,
    mean_cost,
    mean_elapsed_s,
    mean_of,
    mean_tokens,
    rises_too_much,
)
from sleipnir.scheduler.testing.evaluation.file import Evaluation
from sleipnir.scheduler.testing.evaluation.rows import EvaluationRow
from sleipnir.scheduler.testing.evaluation.running import RowRun
from sleipnir.scheduler.testing.evaluation.scoring import VersionScores, sum_usd
from sleipnir.scheduler.testing.statistics.means import MeanInterval
from sleipnir.scheduler.views.text.formatting import columns, usd

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types import evaluations as types

BASELINE = "baseline"
CURRENT = "current"
_FLIPS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Flip:
    """A row that two versions differ on, with the runs to look at."""

    name: str
    check: str
    row: str
    before: float
    after: float
    runs: tuple[str, str]


class EvaluationReport:
    """The scores of all versions; the baseline, if there is one, first."""

    def __init__(
        self,
        agent: str,
        evaluation: Evaluation,
        rows: Sequence[EvaluationRow],
        versions: Sequence[VersionScores],
        *,
        has_baseline: bool,
    ) -> None:
        self._agent = agent
        self._evaluation = evaluation
        self._rows = rows
        self._versions = versions
        self._baseline = versions[0] if has_baseline else None
        self.compared: list[Compared] = []
        if self._baseline is not None:
            self.compared = compare(evaluation, rows, self._baseline, versions[1:])

    @property
    def stopped(self) -> int:
        """Rows that a budget stopped, and which are not scored."""
        return sum(version.stopped for version in self._versions)

    def passed(self) -> bool | None:
        """Return whether nothing is lost; None if nothing is demanded."""
        return not any(self.losses()) if self._evaluation.gates else None

    def losses(self) -> Iterator[str]:
        """Yield why the gate is not passed, a sentence each."""
        gates = self._evaluation.gates
        judged = self._versions[1:] if self._baseline is not None else self._versions
        for version in judged:
            for check in self._evaluation.checks:
                if is_below_min(gates.get(check.name), self._mean(check.name, version)):
                    yield f"{check.name} of {version.of.name} is below its least mean"
        for each in self.compared:
            if each.verdict == "lost":
                yield f"{each.check} of {each.name} is lost"
            elif each.verdict == "open" and gates[each.check].strict:
                yield f"{each.check} of {each.name} is open, and strict"
        for version in judged:
            if self._baseline is not None and rises_too_much(
                self._evaluation, self._baseline, version
            ):
                yield f"a row of {version.of.name} costs more than it may"
        if self.stopped and gates:
            yield f"a budget stopped {self.stopped:,} rows"

    def document(self) -> types.EvaluationSummaryDocument:
        """Return all figures; `passed` and `verdict` are null where nothing is demanded."""
        return {
            "agent": self._agent,
            "eval": self._evaluation.name,
            "versions": [self._version_document(version) for version in self._versions],
            "compared": [_compared_document(each) for each in self.compared],
            "passed": self.passed(),
        }

    def row_documents(self) -> Iterator[dict[str, Any]]:
        """Yield each row with what every version made of it."""
        for row in self._rows:
            versions = []
            for version in self._versions:
                runs = version.of.runs.get(row.id, ())
                versions.append(
                    {
                        "name": version.of.name,
                        "version": version.of.version,
                        "runs": [run.run_id for run in runs],
                        "statuses": [run.status for run in runs],
                        "outputs": [run.output for run in runs],
                        "values": [run.value for run in runs],
                        "errors": [run.error for run in runs],
                        "failures": [run.failures for run in runs],
                        "usage": [run.usage for run in runs],
                        "elapsed_s": [run.elapsed_s for run in runs],
                        "states": [run.state for run in runs],
                        "inherited": [_inherited_document(run) for run in runs],
                        "scores": {
                            check: scores.get(row.id) for check, scores in version.scores.items()
                        },
                    }
                )
            yield {"row": row.names(), "cluster": row.cluster, "versions": versions}

    def flips(self) -> list[Flip]:
        """Return the rows on which versions differ most from the baseline, lost ones first."""
        if self._baseline is None:
            return []
        found = []
        for version in self._versions[1:]:
            for check, after in version.scores.items():
                before = self._baseline.scores[check]
                for row_id in before.keys() & after.keys():
                    if before[row_id] != after[row_id]:
                        runs = _first(self._baseline, row_id), _first(version, row_id)
                        pair = before[row_id], after[row_id]
                        found.append(Flip(version.of.name, check, row_id, *pair, runs))
        return sorted(found, key=lambda flip: (flip.after - flip.before, flip.row, flip.check))

    def lines(self, *, fit: bool = False) -> Iterator[str]:
        """Yield the report.

        Args:
            fit: for a terminal, to its width.
        """
        table = [*self._figures()]
        yield from columns(table[0], table[1:], fit=fit)
        for version in self._versions:
            if inherited := version.of.inherited():
                cost = usd(sum_usd(each.cost_usd for each in inherited))
                yield (
                    f"{version.of.name}: {len(inherited):,} of {len(version.of.runs):,} rows were "
                    f"forked from the baseline's; inherited cost: {cost}"
                )
        if self.compared:
            yield ""
            yield from columns(
                ("AGAINST BASELINE", "CHECK", "DIFFERENCE", "WON", "LOST", "P", "VERDICT"),
                [_compared_row(each) for each in self.compared],
                fit=fit,
            )
        largest = sorted(self.flips(), key=lambda flip: -abs(flip.after - flip.before))
        for flip in largest[:_FLIPS_SHOWN]:
            yield (
                f"  {flip.check} of row {printable(flip.row)}: {flip.before:g} -> {flip.after:g}, "
                f"sleipnir diff {flip.runs[0]} {flip.runs[1]}"
            )
        if self.stopped:
            yield f"{self.stopped:,} rows were stopped by a budget and are not scored"

    def _figures(self) -> Iterator[tuple[str, ...]]:
        """Yield the rows of a table with the versions side by side, its head first."""
        versions = self._versions
        yield "", *(version.of.name for version in versions)
        yield "version", *(version.of.version for version in versions)
        yield "rows", *(f"{len(version.of.runs):,}" for version in versions)
        yield "failed", *(f"{version.failed:,}" if version.failed else "-" for version in versions)
        for check in self._evaluation.checks:
            yield check.name, *(self._told_mean(check.name, version) for version in versions)
        yield "cost of a row", *(usd(mean_cost(version)) for version in versions)
        yield "tokens of a row", *(f"{mean_tokens(version):,.0f}" for version in versions)
        yield "time of a run", *(f"{mean_elapsed_s(version):.1f}s" for version in versions)
        if any(check.judge is not None for check in self._evaluation.checks):
            yield "cost of judges", *(usd(version.of.judge_usd) for version in versions)

    def _told_mean(self, check: str, version: VersionScores) -> str:
        unjudged = version.unjudged[check]
        left_out = f", {unjudged:,} unjudged" if unjudged else ""
        return f"{_interval(self._mean(check, version))}{left_out}"

    def markdown(self) -> str:
        """Return the report as a page."""
        text = "\n".join(self.lines())
        verdict = {True: "passed", False: "not passed", None: "no gate"}[self.passed()]
        return f"# {self._agent}: {self._evaluation.name}\n\n{verdict}\n\n```text\n{text}\n```\n"

    def _mean(self, check: str, version: VersionScores) -> MeanInterval | None:
        fields = next(each for each in self._evaluation.checks if each.name == check)
        return mean_of(fields, self._evaluation.given.repeat, version)

    def _version_document(self, version: VersionScores) -> types.EvaluatedVersionDocument:
        checks: dict[str, types.CheckMeanDocument] = {}
        for check in self._evaluation.checks:
            mean = self._mean(check.name, version)
            checks[check.name] = {
                "mean": None if mean is None else mean.mean,
                "low": None if mean is None else mean.low,
                "high": None if mean is None else mean.high,
                "n": 0 if mean is None else mean.n,
                "unjudged": version.unjudged[check.name],
            }
        runs = [run for some in version.of.runs.values() for run in some]
        return {
            "name": version.of.name,
            "version": version.of.version,
            "rows": len(version.of.runs),
            "failed": version.failed,
            "inherited_rows": len(version.of.inherited()),
            "checks": checks,
            "cost_usd": sum_usd(run.cost_usd for run in runs),
            "judge_usd": version.of.judge_usd,
            "tokens": sum(run.tokens for run in runs),
            "elapsed_s": sum(run.elapsed_s for run in runs),
        }


def _inherited_document(run: RowRun) -> dict[str, Any] | None:
    found = run.inherited
    if found is None:
        return None
    return {
        "cost_usd": found.cost_usd,
        "tokens": found.tokens,
        "elapsed_s": found.elapsed_s,
    }


def _compared_document(each: Compared) -> types.ComparedCheckDocument:
    return {
        "name": each.name,
        "check": each.check,
        "n": each.difference.n,
        "difference": each.difference.mean,
        "low": each.difference.low,
        "high": each.difference.high,
        "won": each.won,
        "lost": each.lost,
        "p": each.p,
        "verdict": each.verdict,
        "rows_needed": each.rows_needed,
    }


def _compared_row(each: Compared) -> tuple[str, ...]:
    found = each.difference
    between = "" if found.low is None else f" [{found.low:+.3f}, {found.high:+.3f}]"
    verdict: str = each.verdict or "-"
    if each.rows_needed is not None:
        verdict += f", some {each.rows_needed:,} rows would decide"
    return (
        each.name,
        each.check,
        f"{found.mean:+.3f}{between}",
        f"{each.won:,}",
        f"{each.lost:,}",
        "-" if each.p is None else f"{each.p:.3g}",
        verdict,
    )


def _interval(mean: MeanInterval | None) -> str:
    if mean is None:
        return "-"
    between = "" if mean.low is None else f" [{mean.low:.3f}, {mean.high:.3f}]"
    return f"{mean.mean:.3f}{between}"


def _first(version: VersionScores, row_id: str) -> str:
    runs = version.of.runs.get(row_id, ())
    return runs[0].run_id if runs else "-"
