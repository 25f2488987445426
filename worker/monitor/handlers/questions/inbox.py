"""Open questions: the list by the nodes that ask, answering many at once, and single ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from sleipnir.scheduler.errors import AnswerInvalid, RunNotFound, SleipnirError
from sleipnir.scheduler.runs.model import Question
from sleipnir.scheduler.store.audit.log import DONE, AuditFilter
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.people.opened import OpenedQuestions
from sleipnir.scheduler.views import inbox, questions
from sleipnir.scheduler.views.documents import Document
from sleipnir.scheduler.views.text.tables import questions as question_table
from sleipnir.worker.monitor.bodies import AnswerBody
from sleipnir.worker.monitor.conditions import instant_of
from sleipnir.worker.monitor.handlers.base import bad_request
from sleipnir.worker.monitor.handlers.questions.answering import AnswerHandler
from sleipnir.worker.monitor.problems import Problem, Refused, problem_of

_LIMIT = 50
_MOST = 200
# From so many answers on, their number has to be typed.
_MANY = 25
_NARROWING = ("batch", "text", "until")


class InboxPages(AnswerHandler):
    """The inbox with one question opened."""

    async def give_inbox(self, shown: Question | None, **values: Any) -> None:
        """Respond with the groups, the questions of one of them, and one question.

        Args:
            shown: the question; None: the oldest of the group that the address names, or of all.
            values: for the template; they replace those of the question.
        """
        narrowed = await self._narrowed()
        agents = tuple(filter(None, self.get_query_arguments("agent")))
        node = self.text_argument("node")
        if shown is not None:
            agents, node = (), None
        queries = self.site.client.queries
        found = await self.site.call(
            questions.groups_document, queries, self.user, agents=agents, node=node, **narrowed
        )
        group = _group_of(found["groups"], shown)
        listed = await self.site.call(self._questions_of, group, narrowed)
        groups = sorted(found["groups"], key=lambda each: not (each["unread"] or each is group))
        rows = _unread_first(listed["questions"], shown)
        if shown is None and rows:
            shown = await self._first_open(rows)
        pane = {} if shown is None else await self.pane(shown)
        self.give_page(
            "inbox.html",
            **{
                "tab": "inbox",
                "title": "Inbox",
                "question": None,
                "is_one": False,
                "groups": groups,
                "is_all": found["is_all"],
                "group": group,
                "rows": rows,
                "newer": listed["next"],
                "kept": self._kept(),
                "is_filtered": bool(narrowed or agents or node),
                "is_first": self.text_argument("cursor") is None,
                "argument": self.text_argument,
                "sent": await self._sent(),
                "answered": 0,
                "refused": (),
                **pane,
                **values,
            },
        )

    async def _narrowed(self) -> dict[str, Any]:
        """Return what the address says of the questions, besides who asks."""
        batch, text, until = map(self.text_argument, _NARROWING)
        found: dict[str, Any] = {"batch": batch, "text": text}
        if until is not None:
            now_ms = await self.site.call(self.site.client.queries.now_ms)
            found["until_ms"] = instant_of("until", until, now_ms)
        return {name: value for name, value in found.items() if value is not None}

    def _questions_of(self, group: Document | None, narrowed: Mapping[str, Any]) -> Document:
        if group is None:
            return {"questions": [], "next": None}
        return questions.inbox_page(
            self.site.client.queries,
            self.user,
            limit=self.number_argument("limit", _MOST, _MOST),
            cursor=self.text_argument("cursor"),
            agents=(group["agent"],),
            node=group["node"],
            **narrowed,
        )

    async def _first_open(self, listed: Sequence[Document]) -> Question | None:
        for each in listed:
            try:
                return await self.open_question(*each["question_id"].split("/", 1))
            except (Refused, RunNotFound):  # answered since it was listed
                continue
        return None

    def _kept(self) -> str:
        """Return the end of an address that keeps this page's filter; empty without one."""
        given = {name: self.text_argument(name) for name in _NARROWING}
        kept = urlencode({name: value for name, value in given.items() if value is not None})
        return f"?{kept}" if kept else ""

    async def _sent(self) -> Document | None:
        """Return the answer that led to this page."""
        asked = self.text_argument("answered")
        if asked is None:
            return None
        wanted = AuditFilter(act="answer", target=asked, outcome=DONE)
        entry = await self.site.call(self.site.audit.latest, wanted)
        if entry is None:
            return None
        return {"run_id": asked.partition("/")[0], "answer": entry.act.detail}


class InboxHandler(InboxPages):
    """Open questions; those selected get the same answer."""

    async def get(self) -> None:
        if self.wants == "html":
            await self.give_inbox(None)
            return
        document = await self._listed()
        if self.wants == "json":
            self.give_json(document)
        else:
            self.give_lines(question_table.lines_of(document["questions"], fit=False))

    async def _listed(self) -> Document:
        return await self.site.call(
            questions.inbox_page,
            self.site.client.queries,
            self.user,
            limit=self.number_argument("limit", _LIMIT, _MOST),
            cursor=self.text_argument("cursor"),
            agents=tuple(filter(None, self.get_query_arguments("agent"))),
            node=self.text_argument("node"),
            **await self._narrowed(),
        )

    async def post(self) -> None:
        """Say what an answer to the selected questions will do; give it once that is confirmed."""
        marked = list(dict.fromkeys(self.get_body_arguments("question", strip=False)))[:_MOST]
        text = self.get_body_argument("answer", None, strip=False)
        if text is None:
            text = self.get_body_argument("other", "", strip=False)
        if not marked:
            raise bad_request("select the questions to answer")
        confirmed = self.get_body_argument("confirmed", "")
        typed = self.get_body_argument("typed", "").replace(",", "").strip()
        is_sure = len(marked) < _MANY or typed == str(len(marked))
        if not confirmed or not is_sure:
            if confirmed:
                self.set_status(422)
            await self._ask(marked, text, "Type the number of answers." if confirmed else None)
            return
        answered, refused = 0, []
        for question_id in marked:
            try:
                await self.answer(*(await self._one_of_many(question_id)), {"answer": text})
                answered += 1
            except (Refused, RunNotFound) as error:
                refused.append(f"{question_id}: {problem_of(error).message}")
        await self.give_inbox(None, answered=answered, given=text, refused=refused)

    async def _one_of_many(self, question_id: str) -> tuple[str, str]:
        """Return run and visit of a question that may be answered together with others."""
        run_id, _, visit = question_id.partition("/")
        if (await self.open_question(run_id, visit)).is_guard:
            raise Refused(Problem(422, "invalid", "consent to a call is given on its own page"))
        return run_id, visit

    async def _ask(self, marked: Sequence[str], text: str, problem: str | None) -> None:
        """Show which questions would get which answer, and where that leads."""
        groups: dict[tuple[str, str, str], dict[str, Any]] = {}
        valid, refused = [], []
        for question_id in marked:
            try:
                group = await self._effect(question_id, text)
            except (Refused, RunNotFound, AnswerInvalid) as error:
                refused.append(f"{question_id}: {problem_of(error).message}")
                continue
            valid.append(question_id)
            key = (group["agent"], group["node"], group["to"] or "")
            groups.setdefault(key, group)["count"] += 1
        self.give_page(
            "inbox_confirm.html",
            tab="inbox",
            title="Answer questions",
            groups=list(groups.values()),
            question_ids=valid,
            refused=refused,
            text=text,
            must_type=len(valid) >= _MANY,
            problem=problem,
        )

    async def _effect(self, question_id: str, text: str) -> dict[str, Any]:
        """Return what an answer does to a question.

        Raises:
            Refused, RunNotFound, AnswerInvalid: it cannot be given.
        """
        run_id, visit = await self._one_of_many(question_id)
        question = await self.open_question(run_id, visit)
        answer = self.accepted(question, {"answer": text})
        run = await self.site.call(self.site.client.queries.run, run_id)
        return {
            "agent": question.agent,
            "node": question.node,
            "example": await self.site.call(self.site.masks.masked, question.text, run),
            "answer": answer,
            "options": question.options,
            "to": inbox.route_of(question, await self.graph_of(run), answer),
            "count": 0,
        }


class GroupsApi(InboxPages):
    """GET /api/v1/questions/groups"""

    async def get(self) -> None:
        document = await self.site.call(
            questions.groups_document,
            self.site.client.queries,
            self.user,
            agents=tuple(filter(None, self.get_query_arguments("agent"))),
            node=self.text_argument("node"),
            **await self._narrowed(),
        )
        self.give_json(document)


class AnswerApi(AnswerHandler):
    """POST /api/v1/questions/RUN/VISIT/answer"""

    async def post(self, run_id: str, visit: str) -> None:
        body = AnswerBody.of(self.json_body())
        question = await self.answer(run_id, visit, {"answer": body.text})
        self.give_json({"run_id": question.run_id, "node": question.node})


class QuestionPage(InboxPages):
    """/inbox/RUN/VISIT: a question with its form; answering leads to the next of its group."""

    takes_values = True

    async def get(self, run_id: str, visit: str) -> None:
        question = await self.open_question(run_id, visit)
        await self.site.call(self._note, question)
        await self._give(question)

    def _note(self, question: Question) -> None:
        """Remember that its visitor has opened a question; a full Redis must not hide it."""
        client = self.site.client
        with suppress(RedisError):
            OpenedQuestions(client.store.client).note(
                self.user, question.question_id, client.queries.now_ms()
            )

    async def _give(self, question: Question, **values: Any) -> None:
        title = f"{question.agent} · {question.place}"
        await self.give_inbox(question, is_one=True, title=title, **values)

    async def post(self, run_id: str, visit: str) -> None:
        question = await self.open_question(run_id, visit)
        if {"link_for", "revoke"} & self.request.body_arguments.keys():
            await self._change_links(question)
            return
        fields = self.sent_fields()
        given = fields["answer"] or fields["own"] or ""
        try:
            other = await self.other_answer(question, fields)
            if other is not None:
                await self._give(question, other=other, given=given)
                return
            await self.require_fit(question, given)
            await self.answer(run_id, visit, fields)
        except (Refused, AnswerInvalid) as error:
            problem = problem_of(error)
            if problem.status != 422:
                raise
            self.set_status(422)
            await self._give(question, problem=problem, given=given)
            return
        is_of_run = self.text_argument("then") == "run"
        self.redirect(f"/runs/{run_id}" if is_of_run else await self._next(question), status=303)

    async def _change_links(self, question: Question) -> None:
        """Make or revoke a link to the question, and show it again."""
        recipient = self.get_body_argument("revoke", None) or self.get_body_argument("link_for", "")
        shown: dict[str, Any] = {}
        try:
            if "revoke" in self.request.body_arguments:
                await self.revoke_link(question, recipient)
            else:
                shown["new_link"] = (await self.linked(question, recipient)).url
        except SleipnirError as error:
            self.set_status(problem_of(error).status)
            shown["links_problem"] = problem_of(error).message
        await self._give(question, **shown)

    async def _next(self, question: Question) -> str:
        narrowed = await self._narrowed()
        queries = self.site.client.queries

        def alike() -> list[Question]:
            page = queries.list_questions(
                _MOST, agents=(question.agent,), node=question.node, **narrowed
            )
            opened = queries.opened_by(self.user, page.entries)
            return sorted(page.entries, key=lambda each: each.question_id in opened)

        found = await self.site.call(alike)
        kept = self._kept()
        answered = urlencode({"answered": question.question_id})
        address = f"{kept}&{answered}" if kept else f"?{answered}"
        if not found:
            return f"/inbox{address}"
        return f"/inbox/{found[0].question_id}{address}"


def _unread_first(listed: Sequence[Document], shown: Question | None) -> list[Document]:
    """Return questions in the order of a list; the one shown stays until another one is."""
    shown_id = None if shown is None else shown.question_id
    return sorted(
        listed, key=lambda each: not (each["is_unread"] or each["question_id"] == shown_id)
    )


def _group_of(groups: Sequence[Document], shown: Question | None) -> Document | None:
    """Return the group of a question; of none, the first one."""
    if shown is None:
        return groups[0] if groups else None
    alike = (each for each in groups if (each["agent"], each["node"]) == (shown.agent, shown.node))
    return next(alike, None)
