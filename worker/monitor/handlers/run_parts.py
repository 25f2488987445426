"""What is read of one run: by its page, and by the API."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.schema import Graph, MapNode
from sleipnir.scheduler.runs.model import Question, Run
from sleipnir.scheduler.views import (
    audit,
    inbox,
    run,
    submission,
    timeline,
    versions,
    visits,
)
from sleipnir.scheduler.views.again.places import again_document
from sleipnir.scheduler.views.archive.place import archived_document
from sleipnir.scheduler.views.documents import Document, excerpt
from sleipnir.scheduler.views.graph import playback, progress
from sleipnir.worker.monitor.formats import first_line
from sleipnir.worker.monitor.handlers.base import MonitorHandler, bad_request
from sleipnir.worker.monitor.problems import Problem, Refused

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types import run as run_types
    from sleipnir.scheduler.views.types.agents import RunVersionDocument
    from sleipnir.scheduler.views.types.questions import (
        AnswerFormDocument,
        AnswerListDocument,
        OpenVisitDocument,
    )

T = TypeVar("T")

_LOG_LINES = 200
_ITEMS = 100
_MOST_OF_ITEM = 10_000
_BEGINNING_OF_ITEM = 60
_VISITS = 50
_VISIT_ROWS = 300
_VISIT_ROWS_OF_CHILD = 60
_MOST_ASKED = 5


class RunHandler(MonitorHandler):
    """Reads one run; all its texts are shown without its secrets."""

    async def found(self, run_id: str) -> Run:
        """Return the run with an id."""
        return await self.site.call(self.site.client.queries.run, run_id)

    async def shown(self, function: Callable[..., T], of: Run, *arguments: Any, **named: Any) -> T:
        """Return a view of a run, without its secrets."""

        def read() -> T:
            document = function(self.site.client, of, *arguments, **named)
            return self.site.masks.masked(document, of)

        try:
            return await self.site.call(read)
        except IndexError as error:
            raise Refused(Problem(404, "not_found", str(error))) from error

    async def headline(self, of: Run) -> run_types.RunDocument:
        """Return the head of the page, with typical values of the agent."""
        head = await self.shown(run.headline_document, of)
        of_graph = await self.stored_graph(of)
        nodes = {} if of_graph is None else of_graph.nodes
        maps = [name for name, node in nodes.items() if isinstance(node, MapNode)]
        return {
            **head,
            "typical": await self.site.call(self.site.typical.of, of.agent),
            "parts": await self.site.call(run.parts_document, self.site.client, of, maps),
            "archived": await self.site.call(archived_document, self.site.client, of),
        }

    async def graph(self, of: Run, step: int | None) -> run_types.ComparedGraphDocument:
        """Return the run's progress in its graph, and what is usual.

        Raises:
            BundleError: the agent is no longer stored, or has no graph.
        """
        if of.context.converses:
            raise BundleError("a normal agent has no graph")
        drawing = await self.site.call(self.site.drawings.of, of)
        document = await self.shown(progress.graph_document, of, drawing.outline, step=step)
        usual = await self.site.call(
            self.site.usual_graphs.of, of.agent, of.digest, drawing.outline
        )
        return {**document, "usual": usual.to_json()}

    async def playback(self, of: Run) -> run_types.PlaybackDocument:
        """Return the run's steps in its graph; raises as `graph`."""
        if of.context.converses:
            raise BundleError("a normal agent has no graph")
        drawing = await self.site.call(self.site.drawings.of, of)
        start = self.index_argument("from") or 0
        return await self.shown(
            playback.playback_document, of, drawing.graph, drawing.outline, start=start
        )

    async def events(self, of: Run) -> run_types.EventsDocument:
        return await self.shown(run.events_document, of, self.text_argument("after") or "0")

    async def state(self, of: Run, bounds: run.StateBounds | None) -> run_types.StateDocument:
        return await self.shown(
            run.state_document,
            of,
            self.index_argument(),
            only=self.text_argument("key"),
            text=self.text_argument("q"),
            graph=await self.stored_graph(of),
            start=self.index_argument("from") or 0,
            bounds=bounds,
        )

    async def stored_graph(self, of: Run) -> Graph | None:
        """Return the graph of the run; None for a normal agent, and if it is no longer stored."""
        if of.context.converses:
            return None
        try:
            return (await self.site.call(self.site.drawings.of, of)).graph
        except BundleError:
            return None

    async def answers(self, of: Run) -> AnswerListDocument:
        document = await self.site.call(
            audit.answers_document,
            self.site.audit,
            who=None,
            run_id=of.run_id,
            limit=self.number_argument("limit", _VISITS, run.MOST_ENTRIES),
            cursor=self.text_argument("cursor"),
        )
        answers = await self.site.call(self.site.masks.masked, document["answers"], of)
        return {**document, "answers": answers}

    async def latest_events(self, of: Run) -> run_types.LatestEventsDocument:
        before, kind = map(self.text_argument, ("before", "kind"))
        return await self.shown(run.latest_events_document, of, before=before, kind=kind)

    async def history(self, of: Run) -> run_types.HistoryDocument:
        return await self.shown(run.history_document, of, start=self.index_argument("from") or 0)

    async def logs(self, of: Run) -> run_types.LogsDocument:
        return await self.shown(
            run.logs_document,
            of,
            node=self.text_argument("node"),
            item=self.index_argument("item"),
            step=self.index_argument(),
            stream=self.text_argument("stream"),
            text=self.text_argument("q"),
            before=self.index_argument("before"),
            limit=self.number_argument("limit", _LOG_LINES, run.MOST_ENTRIES),
        )

    async def timeline(self, of: Run, first: str = "from") -> run_types.TimelineDocument:
        """Return the visits of a run; `first` is the parameter with the first step."""
        return await self.shown(
            timeline.timeline_document,
            of,
            start=self.index_argument(first) or 0,
            limit=self.number_argument("limit", _VISIT_ROWS, run.MOST_ENTRIES),
        )

    async def timelines_of_children(
        self, of: Run, run_ids: Sequence[str]
    ) -> list[tuple[Run, run_types.TimelineDocument]]:
        """Return the first visits of those of these runs that are below a run."""
        found = await self.site.call(self.site.client.queries.runs, run_ids)
        root = of.context.root or of.run_id
        return [
            (
                child,
                await self.shown(timeline.timeline_document, child, limit=_VISIT_ROWS_OF_CHILD),
            )
            for child in found
            if child is not None and child.parent is not None and child.context.root == root
        ]

    async def items(self, of: Run, place: visits.MapPlace) -> run_types.ItemsDocument:
        state = self.text_argument("state")
        if state not in (None, *visits.ITEM_STATES):
            raise bad_request(f"state must be one of {', '.join(visits.ITEM_STATES)}")
        return await self.shown(
            visits.items_document,
            of,
            place,
            state=state,
            cause=self.text_argument("cause"),
            after=self.index_argument("after"),
            limit=self.number_argument("limit", _ITEMS, run.MOST_ENTRIES),
        )

    async def items_with_chosen(self, of: Run, place: visits.MapPlace) -> run_types.ItemsDocument:
        """Return the items of a map's visit, and all that is known of the one that is named."""
        items, index = await self.items(of, place), self.index_argument("item")
        of_graph = await self.stored_graph(of)
        if index is None or of_graph is None:
            return items
        chosen = await self.shown(visits.item_document, of, of_graph, place, index)
        return {**items, "chosen": chosen}

    async def item_values(
        self, of: Run, of_graph: Graph, place: visits.MapPlace, indexes: Sequence[int]
    ) -> list[str] | None:
        """Return the first characters of items' values, if these are still known."""
        document = await self.shown(visits.item_values_document, of, of_graph, place, indexes)
        values = document["values"]
        return None if values is None else await self.site.call(_beginnings, values)

    async def item(self, of: Run, of_graph: Graph, place: visits.MapPlace, index: int) -> Document:
        """Return one item with the first characters of its value and its result."""
        document = await self.shown(visits.item_document, of, of_graph, place, index)
        known = {
            name: await self.site.call(excerpt, value, _MOST_OF_ITEM)
            for name, value in document["known"].items()
        }
        return {**document, "known": known}

    async def model(self, of: Run) -> run_types.ModelCallsDocument:
        return await self.shown(
            visits.model_document,
            of,
            node=self.text_argument("node"),
            item=self.index_argument("item"),
            step=self.index_argument(),
            call=self.index_argument("call"),
            failed=self.text_argument("failed") == "1",
            limit=self.number_argument("limit", _VISITS, run.MOST_ENTRIES),
        )

    async def under_way(self, of: Run) -> Sequence[OpenVisitDocument]:
        """Return what was said in open visits; nothing if only some conversations are wanted."""
        if of.is_final or any(self.text_argument(name) for name in ("node", "item", "step")):
            return []
        mask = partial(self.site.masks.masked, run=of)
        found = await self.site.call(inbox.under_way_document, self.site.client, of, mask)
        return found["visits"]

    async def asked(self, of: Run) -> Sequence[AnswerFormDocument]:
        """Return open questions of the run and its child runs, with what each answer leads to."""
        of_graph, client = await self.stored_graph(of), self.site.client
        mask = partial(self.site.masks.masked, run=of)

        def form(question: Question) -> AnswerFormDocument:
            asks_itself = question.run_id == of.run_id
            return inbox.form_document(client, question, of_graph if asks_itself else None, mask)

        def read() -> list[AnswerFormDocument]:
            return list(map(form, client.open_questions(of.run_id)[:_MOST_ASKED]))

        found: list[AnswerFormDocument] = mask(await self.site.call(read))
        return found

    async def children(self, of: Run) -> run_types.ChildrenDocument:
        return await self.shown(run.children_document, of)

    async def agent(self, of: Run) -> RunVersionDocument:
        return await self.shown(versions.run_version_document, of)

    async def again(self, of: Run) -> run_types.AgainDocument:
        return await self.shown(again_document, of)

    async def submitted(self, of: Run) -> run_types.SubmittedWithDocument:
        return await self.shown(submission.submitted_document, of)


def _beginnings(values: Sequence[Any]) -> list[str]:
    return [
        first_line(
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False),
            _BEGINNING_OF_ITEM,
        )
        for value in values
    ]
