"""Answers that were accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sleipnir.scheduler.views import audit
from sleipnir.scheduler.views.text.masked import masked_texts
from sleipnir.worker.monitor.handlers.base import MonitorHandler

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.questions import GivenAnswerDocument

_LIMIT = 50
_MOST = 200


class AnsweredHandler(MonitorHandler):
    """Answers that were accepted, newest first: by whom, how, and after what time."""

    async def get(self) -> None:
        document = await self.site.call(
            audit.answers_document,
            self.site.audit,
            who=self.text_argument("who"),
            run_id=self.text_argument("run"),
            limit=self.number_argument("limit", _LIMIT, _MOST),
            cursor=self.text_argument("cursor"),
        )
        answers = await self.site.call(self._masked, document["answers"])
        document = {**document, "answers": answers}
        if self.wants == "json":
            self.give_json(document)
            return
        argument = self.text_argument
        self.give_page(
            "answered.html", tab="inbox", title="Answers", answered=document, argument=argument
        )

    def _masked(self, answers: list[GivenAnswerDocument]) -> list[GivenAnswerDocument]:
        """Mask each answer as its run's pages do; of a removed run, keys of this machine."""
        run_ids = sorted({answer["run_id"] for answer in answers})
        found = dict(zip(run_ids, self.site.client.queries.runs(run_ids), strict=True))
        return [
            masked_texts(answer) if run is None else self.site.masks.masked(answer, run)
            for answer in answers
            for run in (found[answer["run_id"]],)
        ]
