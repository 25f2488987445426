"""The spans of what a visit calls: models, functions, searches; emitted once that is recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from sleipnir.scheduler.process.telemetry import conventions, environment
from sleipnir.scheduler.process.telemetry.identity import call_span, trace_of, visit_span
from sleipnir.scheduler.process.telemetry.spans import ExportedSpan, SpanFailure, Value
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.worker.telemetry import content

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.model import Begun, Lease
    from sleipnir.scheduler.store.telemetry.facts import Facts
    from sleipnir.scheduler.store.telemetry.run_spans import RunSpans
    from sleipnir.worker.llm.client import Embedded, ModelCallFailed, ModelRequest, Reply, ToolCall

Mask = Callable[[str], str]


class _OfVisit(NamedTuple):
    """The attempt at a visit that calls, and where it is in a trace."""

    run_id: str
    run_try: int
    visit: VisitId
    attempt: int
    stored: str  # trace, as its run stores it
    state: str


class _Call(NamedTuple):
    of: _OfVisit
    call: str  # unique in the attempt
    name: str
    times: tuple[float, float]  # begin and end, on the `monotonic` clock
    attributes: Mapping[str, Value]
    failed: SpanFailure | None
    is_client: bool


class CallSpans:
    """Collects the spans of one try of a visit until they count; thread-safe.

    Args:
        server_of: says where a model is called.
    """

    __slots__ = ("_begun", "_lease", "_made", "_run_spans", "_searches", "_server_of")

    def __init__(
        self,
        run_spans: RunSpans,
        lease: Lease,
        begun: Begun,
        server_of: Callable[[str], tuple[str, int] | None],
    ) -> None:
        self._run_spans = run_spans
        self._lease = lease
        self._begun = begun
        self._server_of = server_of
        self._made: list[_Call] = []
        self._searches = 0

    def count(self, agent: str) -> None:
        """Emit what was made: it is recorded with the run by now."""
        made, self._made = self._made, []
        for call in made:
            told = (call.attributes.get(name, "") for name in conventions.CONTENT)
            self._run_spans.pipeline.offer(
                _Counted(self._run_spans.facts, call, agent, self._begun.context.root),
                sum(len(str(each)) for each in told),
            )

    def replied(
        self, key: str, request: ModelRequest, reply: Reply, began: float, mask: Mask
    ) -> None:
        """Add a model's reply, of a provider or known already."""
        asked_of = request.model if reply.usage.call is None else reply.usage.call.model
        attributes = self._of_model(conventions.CHAT, request.model.partition(",")[0], asked_of)
        attributes |= {
            conventions.OUTPUT_TYPE: "json" if request.response_format or reply.native else "text",
            conventions.FINISH_REASONS: [content.finish_reason(reply)],
            conventions.INPUT_TOKENS: reply.usage.prompt_tokens,
            conventions.OUTPUT_TOKENS: reply.tokens,
            "sleipnir.cached": reply.source != "model",
        }
        if reply.usage.cached_tokens:
            attributes[conventions.CACHE_READ_TOKENS] = reply.usage.cached_tokens
        if reply.usage.cost_usd is not None:
            attributes["sleipnir.cost_usd"] = reply.usage.cost_usd
        if environment.captures_content():
            attributes |= content.of_request(request, mask) | content.of_reply(reply, mask)
        self._add(f"chat {key}", _name(attributes), began, attributes, is_client=True)

    def failed(
        self, key: str, request: ModelRequest, failure: ModelCallFailed, began: float, mask: Mask
    ) -> None:
        """Add a call of a model that has failed."""
        attributes = self._of_model(conventions.CHAT, request.model.partition(",")[0])
        if environment.captures_content():
            attributes |= content.of_request(request, mask)
        kind = failure.kind if failure.status is None else str(failure.status)
        failed = SpanFailure(kind, mask(failure.message))
        self._add(f"chat {key}", _name(attributes), began, attributes, failed, is_client=True)

    def embedded(self, key: str, model: str, made: Embedded, began: float) -> None:
        """Add a call of an embedding model."""
        attributes = self._of_model(conventions.EMBEDDINGS, model, model)
        attributes[conventions.INPUT_TOKENS] = made.usage.prompt_tokens
        if made.usage.cost_usd is not None:
            attributes["sleipnir.cost_usd"] = made.usage.cost_usd
        self._add(f"embed {key}", _name(attributes), began, attributes, is_client=True)

    def used_tool(
        self,
        call: ToolCall,
        turn: int,
        *,
        began: float,
        is_remote: bool,
        result: str,
        failure: str | None,
        mask: Mask,
    ) -> None:
        """Add the call of a function; `turn` is the number of the reply that asked for it."""
        name = mask(call.name)
        attributes: dict[str, Value] = {
            conventions.OPERATION: conventions.EXECUTE_TOOL,
            conventions.TOOL_NAME: name,
            conventions.TOOL_CALL_ID: mask(call.call_id),
            conventions.TOOL_TYPE: "extension" if is_remote else "function",
        }
        if environment.captures_content():
            attributes[conventions.TOOL_ARGUMENTS] = content.shown(call.arguments, mask)
            attributes[conventions.TOOL_RESULT] = content.shown(result, mask)
        failed = None if failure is None else SpanFailure("tool_call_error", failure)
        self._add(f"tool {turn} {call.call_id}", f"execute_tool {name}", began, attributes, failed)

    def searched(self, base: str, hits: int, began: float) -> None:
        """Add the search of a knowledge base."""
        attributes: dict[str, Value] = {
            conventions.OPERATION: conventions.RETRIEVAL,
            conventions.DATA_SOURCE: base,
            "sleipnir.hits": hits,
        }
        self._searches += 1
        self._add(f"search {self._searches}", f"retrieval {base}", began, attributes)

    def _of_model(self, operation: str, model: str, replied: str = "") -> dict[str, Value]:
        provider, _, name = (replied or model).partition(":")
        attributes: dict[str, Value] = {
            conventions.OPERATION: operation,
            conventions.PROVIDER: conventions.PROVIDERS.get(provider, provider),
            conventions.REQUEST_MODEL: model.partition(":")[2] or model,
        }
        if replied:
            attributes[conventions.RESPONSE_MODEL] = name
        server = self._server_of(replied or model)
        if server is not None:
            attributes[conventions.SERVER_ADDRESS], attributes[conventions.SERVER_PORT] = server
        return attributes

    def _add(
        self,
        call: str,
        name: str,
        began: float,
        attributes: Mapping[str, Value],
        failed: SpanFailure | None = None,
        *,
        is_client: bool = False,
    ) -> None:
        begun, times = self._begun, (began, monotonic())
        of = _OfVisit(
            self._lease.run_id,
            begun.run_try,
            self._lease.visit,
            begun.attempt,
            begun.context.trace,
            begun.context.tracestate,
        )
        self._made.append(_Call(of, call, name, times, attributes, failed, is_client))


class _Counted(NamedTuple):
    """A call that is recorded with its run."""

    facts: Facts
    made: _Call
    agent: str
    root: str

    @property
    def run_id(self) -> str:
        return self.made.of.run_id

    def spans(self) -> Iterator[ExportedSpan]:
        made, of = self.made, self.made.of
        yield ExportedSpan(
            trace_of(of.run_id, of.run_try, of.stored, of.state),
            call_span(of.run_id, of.run_try, of.visit, of.attempt, made.call),
            visit_span(of.run_id, of.run_try, of.visit, of.attempt),
            made.name,
            *self.facts.at_ms(made.times),
            made.attributes,
            made.failed,
            kind="client" if made.is_client else "internal",
            shared=[self.facts.common(of.run_id, self.agent, self.root)],
        )


def _name(attributes: Mapping[str, Value]) -> str:
    return f"{attributes[conventions.OPERATION]} {attributes[conventions.REQUEST_MODEL]}"
