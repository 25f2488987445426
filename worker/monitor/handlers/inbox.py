"""Questions to people, and their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.schema import Graph
from sleipnir.scheduler.errors import AnswerInvalid, AnswerRefused, RunNotFound
from sleipnir.scheduler.runs.answers import accepted
from sleipnir.scheduler.runs.model import Question, Run
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.views import audit, inbox, questions
from sleipnir.scheduler.views.documents import Document
from sleipnir.scheduler.views.text.tables import questions as question_table
from sleipnir.worker.monitor.bodies import AnswerBody
from sleipnir.worker.monitor.conditions import instant_of
from sleipnir.worker.monitor.handlers.acts import ActingHandler
from sleipnir.worker.monitor.handlers.base import MonitorHandler, bad_request
from sleipnir.worker.monitor.handlers.markdown import formatted
from sleipnir.worker.monitor.masked import masked_texts
from sleipnir.worker.monitor.pages.told_pages import PAGE_FIELD
from sleipnir.worker.monitor.problems import Problem, Refused, problem_of

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.questions import GivenAnswerDocument

_LIMIT = 50
_MOST = 200
# Limit on nodes reported as asking the same question several times.
_MOST_GROUPS = 5


class AnswerHandler(ActingHandler):
    """Shared by answering on pages and by the API."""

    async def answer(self, run_id: str, visit: str, fields: Mapping[str, Any]) -> Question:
        """Answer a question; if it is no longer open, no other one is answered instead."""
        question = await self._open(run_id, visit)
        assert self.visitor is not None
        text, by = self._text_of(question, fields), self.visitor.name
        via = "api" if self.gives_json else "page"

        def give() -> None:
            self.site.client.answer_question(question, text, by=by, via=via)

        waited_s = await self.site.call(self.site.client.queries.waited_s, question)
        try:
            await self.act(
                "answer",
                question.question_id,
                give,
                detail=text,
                waited_s=waited_s,
                question=question,
            )
        except AnswerInvalid as error:
            raise Refused(Problem(422, "invalid", str(error))) from error
        except AnswerRefused as error:
            raise await self._answered(run_id, visit) from error
        return question

    def _text_of(self, question: Question, fields: Mapping[str, Any]) -> str:
        """Return the answer as its run will get it; one that is invalid, as it was given."""
        text = _given_text(question, fields)
        try:
            return accepted(question, text, self.site.client.store.settings.value_limit_bytes)
        except AnswerInvalid:
            return text

    async def _graph(self, run: Run) -> Graph | None:
        if run.context.converses:
            return None
        try:
            return (await self.site.call(self.site.drawings.of, run)).graph
        except BundleError:
            return None

    async def _open(self, run_id: str, visit: str) -> Question:
        found = await self.site.call(inbox.find_question, self.site.client, f"{run_id}/{visit}")
        if found is None:
            raise await self._answered(run_id, visit)
        return found

    async def _answered(self, run_id: str, visit: str) -> Refused:
        """Return the refusal for a question no longer open, with who answered it if known."""
        client = self.site.client
        run = await self.site.call(client.queries.run, run_id)
        told = await self.site.call(inbox.answered_document, client, run, visit.partition("/")[2])
        if told is None:
            return Refused(Problem(409, "answered", "this question is not open any more"))
        who = f" by {told['by']}" if told["by"] else ""
        message = f"this question was answered{who} at {told['at']}"
        return Refused(Problem(409, "answered", message, details=told))


class InboxHandler(AnswerHandler):
    """Open questions, oldest first; those selected get the same answer."""

    async def post(self) -> None:
        """Say what an answer to the selected questions will do; give it once that is confirmed."""
        marked = list(dict.fromkeys(self.get_body_arguments("question", strip=False)))[:_MOST]
        text = self.get_body_argument("answer", "", strip=False)
        if not marked:
            raise bad_request("select the questions to answer")
        if not self.get_body_argument("confirmed", ""):
            await self._ask(marked, text)
            return
        answered, refused = 0, []
        for question_id in marked:
            try:
                await self.answer(*(await self._one_of_many(question_id)), {"answer": text})
                answered += 1
            except (Refused, RunNotFound) as error:
                refused.append(f"{question_id}: {problem_of(error).message}")
        await self._show(answered, refused)

    async def _one_of_many(self, question_id: str) -> tuple[str, str]:
        """Return run and visit of a question that may be answered together with others."""
        run_id, _, visit = question_id.partition("/")
        if (await self._open(run_id, visit)).is_guard:
            raise Refused(Problem(422, "invalid", "consent to a call is given on its own page"))
        return run_id, visit

    async def _ask(self, marked: Sequence[str], text: str) -> None:
        """Show which questions would get which answer, and where that leads."""
        groups: dict[tuple[str, str, str], dict[str, Any]] = {}
        valid, refused = [], []
        for question_id in marked:
            try:
                run_id, visit = await self._one_of_many(question_id)
                question = await self._open(run_id, visit)
                given = _given_text(question, {"answer": text})
                limit_bytes = self.site.client.store.settings.value_limit_bytes
                answer = accepted(question, given, limit_bytes)
            except (Refused, RunNotFound, AnswerInvalid) as error:
                refused.append(f"{question_id}: {problem_of(error).message}")
                continue
            valid.append(question_id)
            run = await self.site.call(self.site.client.queries.run, run_id)
            to = inbox.route_of(question, await self._graph(run), answer)
            example = await self.site.call(self.site.masks.masked, question.text, run)
            group = groups.setdefault(
                (question.agent, question.node, to or ""),
                {
                    "agent": question.agent,
                    "node": question.node,
                    "example": example,
                    "answer": answer,
                    "options": question.options,
                    "to": to,
                    "count": 0,
                },
            )
            group["count"] += 1
        self.give_page(
            "inbox_confirm.html",
            tab="inbox",
            title="Answer questions",
            groups=list(groups.values()),
            question_ids=valid,
            refused=refused,
            text=text,
        )

    async def get(self) -> None:
        await self._show()

    async def _show(self, answered: int = 0, refused: Sequence[str] = ()) -> None:
        queries = self.site.client.queries
        node, batch, text = map(self.text_argument, ("node", "batch", "text"))
        document = await self.site.call(
            questions.inbox_page,
            queries,
            limit=self.number_argument("limit", _LIMIT, _MOST),
            cursor=self.text_argument("cursor"),
            agents=tuple(filter(None, self.get_query_arguments("agent"))),
            batch=batch,
            node=node,
            text=text,
            until_ms=instant_of(
                "until", self.text_argument("until"), await self.site.call(queries.now_ms)
            ),
        )
        if self.wants == "json":
            self.give_json(document)
            return
        if self.wants == "text":
            self.give_lines(question_table.lines_of(document["questions"], fit=False))
            return
        total = document["total"]
        is_filtered = bool(
            set(self.request.query_arguments) - {"cursor", "limit", "answered", PAGE_FIELD}
        )
        alike = [] if is_filtered else await self._alike()
        self.give_page(
            "inbox.html",
            tab="inbox",
            title="Inbox" if not total else f"({total}) Inbox",
            inbox=document,
            argument=self.text_argument,
            is_first=self.text_argument("cursor") is None,
            is_filtered=is_filtered,
            alike=alike,
            done=self.text_argument("answered"),
            answered=answered,
            refused=refused,
            suggestions=sorted(
                {
                    each
                    for one in document["questions"]
                    for each in one["options"]
                    if not one["guarded_call"]
                }
            ),
        )

    async def _alike(self) -> list[Document]:
        found = await self.site.call(questions.alike_document, self.site.client.queries)
        return [
            {**group, "link": urlencode({**_of_group(group), "limit": _MOST})}
            for group in found[:_MOST_GROUPS]
        ]


def _of_group(group: Document) -> dict[str, str]:
    return {"agent": group["agent"], "node": group["node"]}


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


class AnswerApi(AnswerHandler):
    """POST /api/v1/questions/RUN/VISIT/answer"""

    async def post(self, run_id: str, visit: str) -> None:
        body = AnswerBody.of(self.json_body())
        question = await self.answer(run_id, visit, {"answer": body.text})
        self.give_json({"run_id": question.run_id, "node": question.node})


class QuestionPage(AnswerHandler):
    """/inbox/RUN/VISIT: the whole question and its form; answering leads to the next one."""

    async def get(self, run_id: str, visit: str) -> None:
        await self._show(await self._open(run_id, visit))

    async def post(self, run_id: str, visit: str) -> None:
        fields = {
            "answer": self.get_body_argument("answer", None, strip=False),
            "choices": self.get_body_arguments("choice", strip=False),
            "own": self.get_body_argument("own", "", strip=False),
        }
        try:
            await self.answer(run_id, visit, fields)
        except Refused as error:
            if error.problem.status != 422:
                raise
            given = fields["answer"] or fields["own"] or ""
            await self._show(await self._open(run_id, visit), error.problem, given)
            return
        self.redirect(await self._next(run_id), status=303)

    async def _next(self, run_id: str) -> str:
        page = await self.site.call(self.site.client.queries.list_questions, 1)
        if not page.entries:
            return f"/inbox?answered={run_id}"
        return f"/inbox/{page.entries[0].question_id}"

    async def _show(
        self, question: Question, problem: Problem | None = None, given: str | None = None
    ) -> None:
        run = await self.site.call(self.site.client.queries.run, question.run_id)
        graph = await self._graph(run)
        mask = partial(self.site.masks.masked, run=run)

        def read() -> Document:
            form = inbox.form_document(self.site.client, question, graph, mask)
            return dict(mask(form))

        def read_context() -> Document:
            return inbox.context_document(self.site.client, question, mask)

        if problem is not None:
            self.set_status(problem.status)
        form, context = await self.site.call(read), await self.site.call(read_context)
        told = [each["text"] for each in context["messages"] if each["role"] != "tool"]
        self.give_page(
            "question.html",
            tab="inbox",
            title=f"Question of {run.agent}",
            question=form,
            context=context,
            formatted=await self.site.call(formatted, [form["text"], *told]),
            problem=problem,
            given=question.default or "" if given is None else given,
            in_graph=_in_graph(question, graph),
            deadline=None if run.deadline is None else to_rfc3339(run.deadline),
        )


def _in_graph(question: Question, graph: Graph | None) -> str:
    """Return the end of the address that shows where a graph asks; empty for a normal agent."""
    if graph is None:
        return ""
    is_node = question.node in graph.nodes
    return f"/graph?{urlencode({'node': question.node})}" if is_node else "/graph"


def _given_text(question: Question, fields: Mapping[str, Any]) -> str:
    if question.kind == "checkbox" and fields["answer"] is None:
        return inbox.answer_of_choices(question, fields["choices"], fields["own"])
    answer = fields["answer"]
    if answer is None:
        raise bad_request("an answer is missing")
    # Browsers send line ends as CR LF.
    return str(answer).replace("\r\n", "\n")
