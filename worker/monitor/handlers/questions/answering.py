"""What the pages and the API of questions share: answering one, and showing it with its form."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.schema import Graph
from sleipnir.scheduler.client.inbound.answer_links import (
    links_to,
    make_answer_link,
    revoke_answer_link,
)
from sleipnir.scheduler.errors import AnswerInvalid, AnswerRefused
from sleipnir.scheduler.runs.answers import accepted
from sleipnir.scheduler.runs.inbound.answer_links import require_recipient
from sleipnir.scheduler.runs.model import Question, Run
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.views import inbox
from sleipnir.scheduler.views.documents import Document
from sleipnir.scheduler.views.questions import known_link_document
from sleipnir.worker.monitor.handlers.acts import ActingHandler
from sleipnir.worker.monitor.handlers.base import bad_request
from sleipnir.worker.monitor.handlers.starting.filled_form import sent_text
from sleipnir.worker.monitor.pages.form_fields import ANSWER, answer_field
from sleipnir.worker.monitor.pages.markdown import formatted
from sleipnir.worker.monitor.problems import Problem, Refused

if TYPE_CHECKING:
    from sleipnir.scheduler.client.inbound.answer_links import NewAnswerLink
    from sleipnir.scheduler.views.types.questions import AnsweredDocument


class AnswerHandler(ActingHandler):
    """Answers questions, and shows them."""

    async def answer(self, run_id: str, visit: str, fields: Mapping[str, Any]) -> Question:
        """Answer a question; if it is no longer open, no other one is answered instead."""
        question = await self.open_question(run_id, visit)
        text, by, via = self._text_of(question, fields), self.user, self.via

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

    async def linked(self, question: Question, recipient: str) -> NewAnswerLink:
        """Make a link with which somebody without an account answers a question."""
        recipient = require_recipient(recipient)
        return await self.act(
            *("answer-link", question.question_id, make_answer_link),
            *(self.site.client, question, recipient),
            detail=f"for {recipient}",
        )

    async def revoke_link(self, question: Question, recipient: str) -> None:
        """Have somebody's link open nothing any more."""
        recipient = require_recipient(recipient)
        await self.act(
            *("answer-link revoke", question.question_id, revoke_answer_link),
            *(self.site.client, question, recipient),
            detail=f"for {recipient}",
        )

    def accepted(self, question: Question, fields: Mapping[str, Any]) -> str:
        """Return the answer as its run will get it.

        Raises:
            AnswerInvalid: it is not what the question asks for.
            Refused: there is none.
        """
        limit_bytes = self.site.client.store.settings.value_limit_bytes
        return accepted(question, _given_text(question, fields), limit_bytes)

    def _text_of(self, question: Question, fields: Mapping[str, Any]) -> str:
        """Return the answer as its run will get it; one that is invalid, as it was given."""
        try:
            return self.accepted(question, fields)
        except AnswerInvalid:
            return _given_text(question, fields)

    def sent_fields(self) -> dict[str, Any]:
        """Return the fields of an answer that a form has sent."""
        answer = self.get_body_argument(ANSWER, None, strip=False)
        return {
            "answer": sent_text(self.request, ANSWER) if self.request.files else answer,
            "choices": self.get_body_arguments("choice", strip=False),
            "own": self.get_body_argument("own", "", strip=False),
        }

    async def require_fit(self, question: Question, given: str) -> None:
        """Check an answer by the form of its node, as the page has asked for it.

        Raises:
            Refused: it does not fit.
        """
        run = await self.site.call(self.site.client.queries.run, question.run_id)
        graph = await self.graph_of(run)
        asked = inbox.answer_form(question, graph)
        field = answer_field(asked, given)
        if field is None or (not given and question.default):
            return
        _, filled = field.entered(given)
        if filled.problem is not None:
            raise Refused(Problem(422, "invalid", f"{field.label}: {filled.problem}"))

    async def other_answer(self, question: Question, fields: Mapping[str, Any]) -> Document | None:
        """Return an answer that is none of the options and has to be confirmed."""
        if self.get_body_argument("other", "") or not question.options:
            return None
        if question.kind not in ("approval", "ask"):
            return None
        answer = self.accepted(question, fields)
        if answer in question.options:
            return None
        run = await self.site.call(self.site.client.queries.run, question.run_id)
        return {"answer": answer, "to": inbox.route_of(question, await self.graph_of(run), answer)}

    async def graph_of(self, run: Run) -> Graph | None:
        """Return the graph that a run follows, if it has one and that is still stored."""
        if run.context.converses:
            return None
        try:
            return (await self.site.call(self.site.drawings.of, run)).graph
        except BundleError:
            return None

    async def open_question(self, run_id: str, visit: str) -> Question:
        """Return a question.

        Raises:
            Refused: it is not open any more.
        """
        found = await self.site.call(inbox.find_question, self.site.client, f"{run_id}/{visit}")
        if found is None:
            raise await self._answered(run_id, visit)
        return found

    async def _answered(self, run_id: str, visit: str) -> Refused:
        """Return the refusal for a question no longer open, with who answered it if known."""
        told = await self.who_answered(run_id, visit)
        if told is None:
            return Refused(Problem(409, "answered", "this question is not open any more"))
        who = f" by {told['by']}" if told["by"] else ""
        message = f"this question was answered{who} at {told['at']}"
        return Refused(Problem(409, "answered", message, details=told))

    async def who_answered(self, run_id: str, visit: str) -> AnsweredDocument | None:
        """Return when and by whom a question that is not open any more was answered, if known."""
        client = self.site.client
        run = await self.site.call(client.queries.run, run_id)
        return await self.site.call(inbox.answered_document, client, run, visit.partition("/")[2])

    async def pane(self, question: Question) -> dict[str, Any]:
        """Return what the template of a question shows."""
        run = await self.site.call(self.site.client.queries.run, question.run_id)
        graph = await self.graph_of(run)
        mask = partial(self.site.masks.masked, run=run)

        def read() -> tuple[Document, Document]:
            form = mask(inbox.form_document(self.site.client, question, graph, mask))
            return form, inbox.context_document(self.site.client, question, mask)

        form, context = await self.site.call(read)
        told = [each["text"] for each in context["messages"] if each["role"] != "tool"]
        asked = context["prompt"]["text"] if context["prompt"] else None
        return {
            "question": form,
            "context": context,
            "formatted": await self.site.call(formatted, [form["text"], asked, *told]),
            "problem": None,
            "given": question.default or "",
            "other": None,
            "in_graph": _in_graph(question, graph),
            "deadline": None if run.deadline is None else to_rfc3339(run.deadline),
            **await self._links(question),
        }

    async def _links(self, question: Question) -> dict[str, Any]:
        """Return what the template says of links to a question."""
        client = self.site.client
        settings = client.store.settings
        is_allowed = settings.answer_links and question.may_be_linked and self.powers.answer
        may_link = is_allowed and settings.monitor_public_url is not None
        found = await self.site.call(links_to, client, question) if may_link else []
        return {
            "may_link": may_link,
            "links": [known_link_document(link) for link in found],
            "new_link": None,
            "links_problem": None,
        }


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
