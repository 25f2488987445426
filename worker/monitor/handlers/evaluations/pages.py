"""Evaluations of agents: /evaluations, and the same below /api/v1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from sleipnir.scheduler.testing.evaluation.documents import (
    ShownEvaluation,
    evaluations_document,
    show_evaluation,
)
from sleipnir.scheduler.views.text.masked import masked_texts
from sleipnir.worker.monitor.charts.intervals import interval_svg
from sleipnir.worker.monitor.formats import span, usd, whole
from sleipnir.worker.monitor.handlers.base import MonitorHandler
from sleipnir.worker.monitor.pages.evaluation_charts import charts_of, score, signed
from sleipnir.worker.monitor.problems import Problem, Refused
from sleipnir.worker.monitor.topics import batch_topic

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types import evaluations as types


# Batches of runs that are open, whose changes a page follows.
_MOST_WATCHED: Final = 4
# The state that a verdict looks like.
_VERDICTS: Final = {"kept": "succeeded", "lost": "failed", "open": "waiting"}


class EvaluationsHandler(MonitorHandler):
    """/evaluations: what was run, and what agents have here."""

    async def get(self) -> None:
        document = masked_texts(
            await self.site.call(
                evaluations_document, self.site.client, self.text_argument("agent")
            )
        )
        if self.wants == "json":
            self.give_json(document)
            return
        self.give_page(
            "evaluations.html",
            tab="agents",
            title="Evaluations",
            crumbs=[("Evaluations", None)],
            evaluations=document["evaluations"],
        )


class EvaluationHandler(MonitorHandler):
    """/evaluations/AGENT/EVAL: versions beside each other."""

    async def get(self, agent: str, name: str) -> None:
        shown = await self.site.call(self._read, agent, name)
        if shown is None:
            message = f"agent '{agent}' has no evaluation '{name}' here, and no runs of one"
            raise Refused(Problem(404, "not_found", message))
        document = shown.document
        if self.wants == "json":
            self.give_json(document)
            return
        if self.wants == "text":
            self.give_lines([document["problem"]] if document["problem"] else shown.lines)
            return
        open_batches = [each["batch"] for each in document["stored"] if each["open"]]
        self.give_page(
            "evaluation.html",
            tab="agents",
            title=f"Evaluation {name} of {agent}",
            crumbs=[(agent, f"/agents/{quote(agent, safe='')}"), (name, None)],
            topics=",".join(["inbox", *map(batch_topic, open_batches[:_MOST_WATCHED])]),
            found=document,
            checks=list(document["versions"][0]["checks"]) if document["versions"] else [],
            charts=list(charts_of(document)),
            interval=interval_svg,
            widest=max((abs(each) for each in _ends(document)), default=1.0),
            verdicts=_VERDICTS,
            amounts=_amounts(document["repeat"]),
            score=score,
            signed=signed,
        )

    def _read(self, agent: str, name: str) -> ShownEvaluation | None:
        shown = show_evaluation(
            self.site.client,
            agent,
            name,
            baseline=self.text_argument("baseline"),
            digest=self.text_argument("rows"),
        )
        return None if shown is None else replace(shown, document=self._masked(shown.document))

    def _masked(self, document: types.EvaluationDocument) -> types.EvaluationDocument:
        """Mask what belongs to the runs that are shown, and this machine's secrets."""
        of_runs = [run_id for flip in document["flips"] for run_id in flip["runs"]]
        runs = {run.run_id: run for run in self.site.client.queries.runs(of_runs) if run}
        flips = []
        for flip in document["flips"]:
            for run in filter(None, map(runs.get, flip["runs"])):
                flip = self.site.masks.masked(flip, run)
            flips.append(flip)
        masked: types.EvaluationDocument = {**document, "flips": flips}
        return masked_texts(masked)


def _amounts(repeat: int) -> tuple[tuple[str, int, Callable[..., str]], ...]:
    """Return what versions are compared in besides scores: its key, of how many, its form."""
    return ("cost_usd", 1, usd), ("tokens", 1, _tokens), ("elapsed_s", repeat, span)


def _tokens(number: float) -> str:
    return whole(round(number))


def _ends(document: types.EvaluationDocument) -> Iterator[float]:
    """Yield how far the intervals of differences reach, and what a check may lose."""
    for each in document["compared"]:
        yield from (each["low"] or each["difference"], each["high"] or each["difference"])
        yield document["bounds"].get(each["check"], 0.0)
