"""The model calls of one visit: one model, one set of sampling settings, one time limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from time import monotonic
from typing import Any

from sleipnir.graphs.errors import NodeFailed
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.limits.money import dollars
from sleipnir.scheduler.runs.events import ModelCalled, ReplyCut, ReplyLimited
from sleipnir.scheduler.runs.failures import BUDGET_REFUSES
from sleipnir.scheduler.runs.model import Usage
from sleipnir.worker.conversation.token_stream import TokenStream
from sleipnir.worker.conversation.transcript import Transcript
from sleipnir.worker.llm.attachments import Attachments
from sleipnir.worker.llm.caller import Caller, caller_of
from sleipnir.worker.llm.chain import NO_FAILURES
from sleipnir.worker.llm.client import (
    NO_LONGER_REPLIES,
    BudgetRefused,
    CutOff,
    Declaration,
    Message,
    ModelCallFailed,
    ModelRequest,
    NotCalled,
    Reply,
    ReplyRefused,
    ReplySchema,
)
from sleipnir.worker.llm.prompt_caching import caching_of
from sleipnir.worker.llm.recording.cache import kept_for_s
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.exchanges import CallTime

# Few runs wait for batches of providers.
with lazy_imports():
    from sleipnir.worker.llm.economy import question


@dataclass(slots=True)
class ModelCalls:
    """Asks a visit's model within the time it has left, each question only once."""

    visit: Visit[Any]
    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)  # of each request, by its fields
    # Whether a text that was cut off is an answer; one that is asked for as a whole never is.
    accepts_cut: bool = True
    # What to do if a reply that is needed whole was cut off.
    cut_remedy: str = NO_LONGER_REPLIES
    # Of the answers in the conversation, if the model may be told it otherwise than in the prompt.
    schema: ReplySchema | None = None
    # Files in the messages, by digest.
    attachments: Attachments = field(default_factory=dict)
    # The node's own timeout, over all its tries; the run's applies as well.
    timeout_s: float | None = None
    # Whether questions wait for batches of their provider; None: those without tools do.
    economy: bool | None = False
    transcript: Transcript = field(init=False)
    # Whether the model was told that its last calls were cut off; the next time is a failure.
    told_of_cut: bool = False
    warnings: tuple[str, ...] = ()  # about settings that the model does not take
    _asked: int = 0

    def __post_init__(self) -> None:
        self.transcript = Transcript(self.visit)

    @property
    def usage(self) -> Usage:
        """Usage of the calls that is not recorded, and so not counted already."""
        return self.transcript.unrecorded_usage

    def ask(
        self,
        messages: Sequence[Message],
        tools: Sequence[Declaration] = (),
        *,
        model: str | None = None,
        streamed: bool = True,
        whole: bool = False,
    ) -> Reply:
        """Return the model's reply; the recorded one, if the question was asked before.

        Args:
            model: None for the visit's own.
            streamed: whether those who follow the run are to see it.
            whole: whether a text that was cut off is a failure in any case; the reply is not part
                of the conversation then, so `stop` and the schema do not concern it.

        Raises:
            ModelCallFailed: also if there is no model, or no time left to ask.
            ReplyRefused: the model or a content filter refused.
            CutOff: the reply was cut off. With calls, it is returned once, so that the model can be
                told.
            MustWait: a limit delays the call.
        """
        settings = {**self.settings, "stop": None} if whole else self.settings
        schema = None if whole else self._schema(tools)
        caching = caching_of(self.visit, loops=not whole and self._loops(tools))
        request = ModelRequest(
            model or self.model,
            messages,
            tools,
            **settings,
            schema=schema,
            caching=caching,
            attachments=self.attachments,
        )
        waits = not whole and (not tools if self.economy is None else self.economy)
        reply = self._recorded_or_new(request, streamed=streamed, waits=waits)
        require_answer(reply)
        if reply.is_cut and reply.calls:
            if self.told_of_cut:
                raise CutOff(reply, self.cut_remedy)
            self.told_of_cut = True
        elif reply.is_cut and (whole or not self.accepts_cut or not reply.text.strip()):
            raise CutOff(reply, self.cut_remedy)
        return reply

    def _loops(self, tools: Sequence[Declaration]) -> bool:
        """Return whether further calls may repeat the messages of this one."""
        return bool(tools) or bool(getattr(self.visit.node, "check", ()))

    def _schema(self, tools: Sequence[Declaration]) -> ReplySchema | None:
        """Return the schema for a request; where functions are offered too, it has to be asked for.

        Not every provider takes both.
        """
        schema = self.schema
        return schema if schema is not None and (schema.required or not tools) else None

    def _recorded_or_new(self, request: ModelRequest, *, streamed: bool, waits: bool) -> Reply:
        self._asked += 1
        replied = self.transcript.next_reply()
        if replied is not None:
            self._exchanged(request, replied, self.transcript.time_of_reply)
            return replied
        self._require_time()
        self.transcript.require_recorded()
        began = monotonic()
        caller = self._caller(str(self._asked), streamed=streamed)
        if waits:
            caller = replace(caller, shares=False, listener=None)
        reply = self._reply_to(request, caller, waits=waits)
        self.transcript.took(reply, self._time_since(began))
        if (calls := self.visit.services.calls) is not None and self.transcript.is_recorded:
            calls.count(self.visit.graph.name)
        for setting in sorted(reply.without & request.settings().keys()):
            warning = f"{request.model} does not take {setting}: it was left out"
            self.warnings = tuple(dict.fromkeys((*self.warnings, warning)))
        if reply.is_cut:
            self.visit.services.narration.narrate(ReplyCut(self.visit.node_id, reply.tokens))
        return reply

    def ask_separately(self, messages: Sequence[Message], model: str | None, key: str) -> Reply:
        """Return a reply that is not part of the conversation.

        The caller records what comes of it, and checks whether it is an answer.

        Args:
            model: None for the visit's own.
            key: distinguishes the question from others of the visit.

        Raises:
            ModelCallFailed, MustWait: as `ask`.
        """
        self._require_time()
        sampling: dict[str, Any] = {
            name: self.settings.get(name) for name in ("temperature", "top_p")
        }
        request = ModelRequest(model or self.model, messages, **sampling)
        return self._reply_to(request, self._caller(key, streamed=False))

    def _exchanged(self, request: ModelRequest, reply: Reply, when: CallTime | None) -> None:
        self.visit.services.exchanges.add(request.answered_by(reply), reply, when)

    def _time_since(self, began: float) -> CallTime:
        return CallTime(monotonic() - began, self.visit.elapsed_s())

    def _require_time(self) -> None:
        if not self.model:
            raise ModelCallFailed("no model set in the graph or as engine default")
        left = self.visit.seconds_left(self.timeout_s)
        if left is not None and left <= 0:
            raise ModelCallFailed("timed out before the model was called", "timed_out")

    def _reply_to(self, request: ModelRequest, caller: Caller, *, waits: bool = False) -> Reply:
        visit, models, began = self.visit, self.visit.services.models, monotonic()
        try:
            reply, failed = models.known_reply(request, caller), NO_FAILURES
            if reply is None and waits:
                reply, failed = self._batched(request, caller).reply()
            self._narrate(request, reply)
            if reply is None:
                reply = models.ask(request, caller, visit.seconds_left(self.timeout_s), failed)
        except ModelCallFailed as failure:
            is_native = request.schema is not None and request.schema.required
            asked = request.native() if is_native else request
            visit.services.exchanges.add_failed(asked, failure, self._time_since(began))
            if visit.services.calls is not None and not isinstance(failure, NotCalled):
                visit.services.calls.failed(caller.key, asked, failure, began, visit.mask)
            if isinstance(failure, BudgetRefused):
                raise NodeFailed(BUDGET_REFUSES, failure.message, self.usage) from failure
            raise
        self._exchanged(request, reply, self._time_since(began))
        if visit.services.calls is not None:
            visit.services.calls.replied(caller.key, request, reply, began, visit.mask)
        if reply.text:
            visit.services.run_log.keep("llm", visit.mask(reply.text))
        if reply.usage:
            visit.services.run_log.keep("usage", f"{request.model}: {_in_words(reply.usage)}")
        return reply

    def _batched(self, request: ModelRequest, caller: Caller) -> question.BatchedQuestion:
        calls = self.visit.services.models.batched
        return question.BatchedQuestion(self.visit, self._asked, request, caller, calls)

    def complete(
        self, messages: Sequence[Message], *, model: str | None = None, streamed: bool = True
    ) -> str:
        """Return the text of a whole reply of a model, None for the visit's own; see `ask`."""
        return self.ask(messages, model=model, streamed=streamed, whole=True).text

    def ask_extractor(self, messages: Sequence[Message]) -> str:
        """Return the text of a whole reply in which an extractor gives the value of another one."""
        exchanges = self.visit.services.exchanges
        before = exchanges.made
        try:
            return self.complete(messages)
        finally:
            exchanges.extraction += exchanges.made - before

    def node_seconds_left(self) -> float | None:
        """Return what remains of the node's own timeout; None without one."""
        if self.timeout_s is None:
            return None
        return self.timeout_s - self.visit.elapsed_s()

    def _narrate(self, request: ModelRequest, known: Reply | None) -> None:
        names = tuple(tool["function"]["name"] for tool in request.tools)
        source = None if known is None or known.source == "model" else known.source
        batch = None if known is None else known.batch
        self.visit.services.narration.narrate(
            ModelCalled(self.visit.node_id, request.model, names, source, batch)
        )

    def _narrate_limited(self, tokens: int, budget: str) -> None:
        limited = ReplyLimited(self.visit.node_id, tokens, budget.partition(":")[0])
        self.visit.services.narration.narrate(limited)

    def _caller(self, key: str, *, streamed: bool = True) -> Caller:
        visit = self.visit
        return replace(
            caller_of(visit, f"{visit.attempt}:{key}"),
            attempt=visit.attempt,
            cache_s=kept_for_s(getattr(visit.node, "cache", None), visit.graph.cache),
            listener=self._listener() if streamed else None,
            on_limited=self._narrate_limited,
        )

    def _listener(self) -> TokenStream | None:
        visit = self.visit
        if not visit.context.streamed:
            return None
        return TokenStream(visit.services.narration.stream, visit.secrets)


def require_answer(reply: Reply) -> None:
    """Check that a reply is an answer.

    Raises:
        ReplyRefused: the model refused, or a content filter stopped it.
    """
    if reply.refusal is not None:
        raise ReplyRefused(f"the model refused: {reply.refusal}")
    if reply.finish == "content_filter":
        raise ReplyRefused("stopped by the provider's content filter")


def require_whole_answer(reply: Reply) -> None:
    """Check that a reply is an answer, as `require_answer`, and whole.

    Raises:
        ReplyRefused, CutOff: it is not.
    """
    require_answer(reply)
    if reply.is_cut:
        raise CutOff(reply)


def _in_words(usage: Usage) -> str:
    cached = f" ({usage.cached_tokens} cached)" if usage.cached_tokens else ""
    cost = "price unknown" if usage.cost_usd is None else dollars(usage.cost_usd)
    return f"{usage.prompt_tokens} tokens in{cached}, {usage.completion_tokens} out, {cost}"
