"""Answering one question by a link, without an account; and such links."""

from __future__ import annotations

from typing import Any

from sleipnir.scheduler.client.inbound.answer_links import links_to
from sleipnir.scheduler.errors import AnswerInvalid, RunNotFound
from sleipnir.scheduler.runs.inbound.answer_links import AnswerLink, LinkOutcome, digest_of
from sleipnir.scheduler.runs.model import Question
from sleipnir.scheduler.store.hooks.inbound_figures import InboundFigures
from sleipnir.scheduler.store.people.answer_links import AnswerLinks
from sleipnir.scheduler.views import inbox
from sleipnir.scheduler.views.questions import (
    answer_link_document,
    known_link_document,
    revoked_link_document,
)
from sleipnir.worker.monitor.access import Powers, Role, User
from sleipnir.worker.monitor.admission.rates import VisitorRates, source_of
from sleipnir.worker.monitor.bodies import AnswerLinkBody
from sleipnir.worker.monitor.handlers.questions.answering import AnswerHandler
from sleipnir.worker.monitor.pages.markdown import formatted
from sleipnir.worker.monitor.problems import Refused, problem_of

_WRONG = "This link is wrong, or no longer valid."


class AnswerLinkPage(AnswerHandler):
    """/a/TOKEN: a question for whoever has its link. Looking never answers: mail scanners look."""

    takes_values = True
    _recipient = ""

    @property
    def powers(self) -> Powers:
        """The link's own, whoever is signed in: to answer, and to see no other page."""
        return Powers(read=False, answer=True, operate=False)

    @property
    def actor(self) -> User:
        return User(self._recipient, Role.ANSWER, "link")

    @property
    def via(self) -> str:
        return "link"

    def require_own_page(self) -> None:
        """Check nothing more: a page of another site does not know the address."""

    async def get(self, token: str) -> None:
        link = await self._link(token, self.site.reads)
        if link is None:
            return
        question = await self._question(link)
        if question is None:
            await self._give_closed(link)
        else:
            await self._give_form(question)

    async def post(self, token: str) -> None:
        link = await self._link(token, self.site.acts)
        if link is None:
            return
        question = await self._question(link)
        if question is None:
            await self._give_closed(link, status=409)
            return
        fields = self.sent_fields()
        given = fields["answer"] or fields["own"] or ""
        try:
            other = await self.other_answer(question, fields)
            if other is not None:
                await self._give_form(question, other={**other, "to": None}, given=given)
                return
            await self.require_fit(question, given)
            await self.answer(question.run_id, question.question_id.partition("/")[2], fields)
        except (Refused, AnswerInvalid) as error:
            problem = problem_of(error)
            if problem.status == 409:
                await self._give_closed(link, status=409)
            elif problem.status == 422:
                self.set_status(422)
                await self._give_form(question, problem=problem, given=given)
            else:
                raise
            return
        await self._count("answered")
        self.redirect(self.site_path, status=303)

    async def _link(self, token: str, rates: VisitorRates) -> AnswerLink | None:
        """Return the link; if there is none, count a wrong password, and say so.

        The right token opens however many wrong ones were tried, as it cannot be guessed.
        """
        source = f"{source_of(self.request.remote_ip)} "
        if wait_s := rates.take(f"answer link {source}"):
            self.refuse_for(wait_s)
        links = AnswerLinks(self.site.client.store)
        link = None
        if self.site.client.store.settings.answer_links:
            link = await self.site.call(links.find, digest_of(token))
        if link is None:
            await self._count("wrong")
            if wait_s := self.site.failed_sign_ins.take(source):
                self.refuse_for(wait_s)
            self.set_status(404)
            self._give(None, closed=_WRONG)
            return None
        self._recipient = link.recipient
        return link

    async def _count(self, outcome: LinkOutcome) -> None:
        figures = InboundFigures(self.site.client.store.client)
        await self.site.call(figures.count_link, outcome)

    async def _question(self, link: AnswerLink) -> Question | None:
        """Return the question of a link, if it is still open and no later one of that id."""
        try:
            found = await self.site.call(inbox.find_question, self.site.client, link.question_id)
        except RunNotFound:
            return None
        return found if found is not None and found.asked_at == link.asked_at else None

    async def _give_closed(self, link: AnswerLink, status: int = 200) -> None:
        """Say that nothing can be answered any more, and who has answered if that is known."""
        run_id, _, visit = link.question_id.partition("/")
        told = None
        try:
            told = await self.who_answered(run_id, visit)
        except RunNotFound:
            status = 410
        self.set_status(status)
        self._give(None, closed="This question is not open any more.", told=told)

    async def _give_form(self, question: Question, **values: Any) -> None:
        client = self.site.client
        run = await self.site.call(client.queries.run, question.run_id)
        form = inbox.answer_form(question, await self.graph_of(run))

        def read() -> dict[str, Any]:
            # Without the graph: its nodes and the run's state are for people with an account.
            document = inbox.form_document(client, question, None, lambda value: value)
            return {**self.site.masks.masked(document, run), "form": form}

        document = await self.site.call(read)
        texts = await self.site.call(formatted, [document["text"]])
        given = {"given": question.default or "", "formatted": texts}
        self._give(document, title=question.agent, **{**given, **values})

    def _give(self, question: dict[str, Any] | None, **values: Any) -> None:
        self.give_page(
            "answer_link.html",
            **{
                "tab": "",
                "title": "Answer",
                "question": question,
                "recipient": self._recipient,
                "problem": None,
                "other": None,
                "closed": None,
                "told": None,
                **values,
            },
        )


class AnswerLinksApi(AnswerHandler):
    """GET, POST and DELETE /api/v1/questions/RUN/VISIT/links"""

    async def get(self, run_id: str, visit: str) -> None:
        question = await self.open_question(run_id, visit)
        found = await self.site.call(links_to, self.site.client, question)
        self.give_json({"links": [known_link_document(link) for link in found]})

    async def post(self, run_id: str, visit: str) -> None:
        body = AnswerLinkBody.of(self.json_body())
        question = await self.open_question(run_id, visit)
        link = await self.linked(question, body.recipient)
        self.set_status(201)
        self.give_json(answer_link_document(question, link, body.recipient))

    async def delete(self, run_id: str, visit: str) -> None:
        recipient = AnswerLinkBody.of({"recipient": self.text_argument("recipient")}).recipient
        question = await self.open_question(run_id, visit)
        await self.revoke_link(question, recipient)
        self.give_json(revoked_link_document(question, recipient))
