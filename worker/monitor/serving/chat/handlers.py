"""/v1: agents as models of an OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from tornado.iostream import StreamClosedError

from sleipnir.graphs.errors import BundleError
from sleipnir.scheduler.errors import SessionInUse, SleipnirError
from sleipnir.scheduler.runs.conversation.sessions import TEMPORARY
from sleipnir.scheduler.runs.model import Question, Run, Status
from sleipnir.scheduler.views.submission import WantedRun, known_run
from sleipnir.worker.monitor.handlers.agents import SubmittingHandler
from sleipnir.worker.monitor.handlers.base import MonitorHandler
from sleipnir.worker.monitor.handlers.questions.answering import AnswerHandler
from sleipnir.worker.monitor.problems import Problem, Refused, problem_of
from sleipnir.worker.monitor.serving.chat.documents import (
    CompletionHead,
    error_document,
    failure_of,
)
from sleipnir.worker.monitor.serving.chat.messages import ChatBody, ModelCard
from sleipnir.worker.monitor.serving.chat.replies import ChatReply, ChunkedReply, WholeReply
from sleipnir.worker.monitor.serving.chat.spoken import SpokenText, spoken_nodes
from sleipnir.worker.monitor.serving.following import RunFollower
from sleipnir.worker.monitor.serving.sessions import open_run

_DISCONNECTED = "the client has disconnected"
# Statuses that clients of the protocol know; others are 400.
_KNOWN = frozenset({400, 401, 403, 404, 405, 409, 413, 429, 500, 503})


class OpenAiHandler(MonitorHandler):
    """The base: refusals in the protocol's form; nothing is here unless it is switched on."""

    async def prepare(self) -> None:
        await super().prepare()
        if not self.site.serving.settings.openai:
            raise Refused(Problem(404, "not_found", f"there is nothing at {self.request.path}"))

    async def require_agent(self, name: str) -> None:
        """Check that an agent is served.

        Raises:
            Refused: it is not.
        """
        if not await self.site.call(self.site.serving.agents.has, name):
            message = f"no agent named '{name[:200]}' is served here"
            hint = "GET /v1/models lists those that are"
            raise Refused(Problem(404, "model_not_found", message, hint))

    def refusal_document(self, problem: Problem) -> Mapping[str, object]:
        if problem.status not in _KNOWN:
            self.set_status(400)
        return error_document(problem)


class ModelsHandler(OpenAiHandler):
    """GET /v1/models"""

    async def get(self) -> None:
        found = await self.site.call(self.site.serving.agents.directories)
        cards = [ModelCard(id=name).model_dump() for name in found]
        self.give_json({"object": "list", "data": cards})


class ModelHandler(OpenAiHandler):
    """GET /v1/models/NAME"""

    async def get(self, name: str) -> None:
        await self.require_agent(name)
        self.give_json(ModelCard(id=name).model_dump())


class ChatHandler(OpenAiHandler, AnswerHandler, SubmittingHandler):
    """POST /v1/chat/completions"""

    is_timed = False  # lasts as long as the run
    has_disconnected = False  # the client
    has_reply = False  # or a failure to tell

    async def post(self) -> None:
        body = ChatBody.of(self.json_body())
        await self.require_agent(body.model)
        now_ms = await self.site.call(self.site.client.queries.now_ms)
        with self.site.serving.place():
            follower = await self._begin(body)
            run_id = follower.run_id
            self.set_header("x-sleipnir-run-id", run_id)
            head = CompletionHead(run_id, body.model, now_ms // 1000)
            reply: ChatReply = WholeReply(self, head)
            if body.stream:
                spoken = await self.site.call(self._spoken, run_id)
                reply = ChunkedReply(self, head, spoken, includes_usage=body.includes_usage)
            with suppress(StreamClosedError):
                await reply.begin()
                await self._follow(follower, reply)
        is_abandoned = self.has_disconnected and not self.has_reply
        if is_abandoned and body.wanted.cancel_on_disconnect:
            await self.act("cancel", run_id, self.site.client.cancel, run_id, _DISCONNECTED)

    def on_connection_close(self) -> None:
        self.has_disconnected = True

    # ---- which run replies

    async def _begin(self, body: ChatBody) -> RunFollower:
        """Start a run, or answer the one of the session that asks; return what follows it."""
        name = self.request.headers.get("x-sleipnir-session") or body.wanted.session
        wanted = WantedRun(
            agent=body.model,
            prompt=body.prompt,
            key=self.request.headers.get("Idempotency-Key") or None,
            session=name or TEMPORARY,
            user=self.user,
            earlier=() if name else body.earlier,
            streamed=bool(body.stream),
        )
        known = await self.site.call(known_run, self.site.client, wanted, self.user)
        if known is not None:
            return self.site.serving.follower(known.run_id)
        if name:
            at = await self.site.call(open_run, self.site.client, body.model, name, wanted.user)
            if at is not None:
                return await self._continue(name, at, body)
        return self.site.serving.follower((await self.submit(wanted)).run_id)

    async def _continue(self, name: str, run: Run, body: ChatBody) -> RunFollower:
        """Answer the question of a run; consent counts only for the call that was shown last.

        Raises:
            SessionInUse: it asks nothing.
        """
        follower = self.site.serving.follower(run.run_id)
        question = await follower.open_question()
        if question is None:
            raise SessionInUse(name, run.run_id, run.status)
        await follower.skip()
        shown = await self.site.call(self.site.serving.text_of, question)
        if not question.is_guard or shown in body.last_reply:
            run_id, _, visit = question.question_id.partition("/")
            await self.answer(run_id, visit, {"answer": body.prompt})
        return follower

    # ---- its reply

    def _spoken(self, run_id: str) -> SpokenText:
        """Return what collects the text of a run while it is generated."""
        client = self.site.client
        try:
            return SpokenText(spoken_nodes(client.graph_of(client.run(run_id))))
        except BundleError:  # its files are not stored any more: it has ended
            return SpokenText(())

    async def _follow(self, follower: RunFollower, reply: ChatReply) -> None:
        """Send what comes of a run until it has ended or asks, or the client has disconnected."""
        try:
            while not self.has_disconnected:
                news = await follower.look(int(1000 * reply.wait_s))
                own = (entry for run_id, entry in news.entries if run_id == follower.run_id)
                await reply.tell(entry.event for entry in own)
                if news.run is not None:
                    self.has_reply = True
                    await self._end(reply, news.run, news.question)
                    return
        except SleipnirError as error:
            await reply.fail(problem_of(error))

    async def _end(self, reply: ChatReply, run: Run, question: Question | None) -> None:
        if question is None and run.status != Status.SUCCEEDED:
            await reply.fail(failure_of(run))
            return
        if question is None:
            text = await self.site.call(self.site.masks.masked, run.output or "", run)
        else:
            text = await self.site.call(self.site.serving.text_of, question)
        await reply.end(text, run.usage)
