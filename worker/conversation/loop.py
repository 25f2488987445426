"""The tool loop: ask the model, carry out the calls in its reply, ask again.

Nothing here keeps state: what was asked and done is in the visit's transcript, so a loop that
another worker takes over, or that was parked on a question, continues where it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import field, replace
from time import monotonic
from typing import Any, NamedTuple, Protocol, assert_never

from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.conversation.loop_check import Bounds
from sleipnir.scheduler.runs.conversation.notebook import Notebook
from sleipnir.scheduler.runs.events import ToolCalled
from sleipnir.worker.conversation.arguments import parse_arguments
from sleipnir.worker.conversation.consents import Consents
from sleipnir.worker.conversation.function_kinds import (
    CallRefused,
    CallResult,
    FunctionCall,
    OfferedFunction,
    ProgramFunction,
    PureFunction,
    ServerFunction,
    TransitionFunction,
    WaitingFunction,
    call_error,
    is_refusal,
    refusal,
)
from sleipnir.worker.conversation.refused_calls import message_of, refused_calls
from sleipnir.worker.conversation.tool_set import Toolset
from sleipnir.worker.llm.calls import ModelCalls
from sleipnir.worker.llm.client import Message, Reply, ToolCall
from sleipnir.worker.tools.call import NeedsConfirmation
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Asked, Awaiting, ChildEnd

# Of a call's arguments, shown to people. Of those that are masked before, the last ones are not
# shown: they might be a part of a secret.
_SHOWN_CHARACTERS = 200
_MASKED_CHARACTERS = 2_000
_NARRATED_CHARACTERS = 2_000  # in the failure of a call
_JOBS = "job__"  # functions of other engines


class Parked(Exception):
    """The loop must wait for what its calls wait for; the visit parks with `outcome`."""

    def __init__(self, outcome: Asked | Awaiting, notebook: Notebook) -> None:
        self.outcome = outcome
        self.notebook = notebook  # after the calls that do not wait
        super().__init__(outcome)


class IterationsExhausted(Exception):
    """The model still calls tools after its last turn."""


class Additions(Protocol):
    """Functions and messages that are added to a conversation as it goes on, turn by turn."""

    def offered(self, toolset: Toolset, notebook: Notebook) -> Toolset:
        """Return the functions for the next turn."""

    def told(self, messages: list[Message], notebook: Notebook) -> list[Message]:
        """Return the messages for the next turn."""


class OnStop(Protocol):
    """Decides whether a conversation is over when its model stops calling functions."""

    def __call__(
        self, notebook: Notebook, reply: Reply, is_last_turn: bool, /
    ) -> tuple[Notebook, str | None]:
        """Return what the run remembers, and what the model is told; None: it is over."""


class CarriedOut(NamedTuple):
    """A reply whose calls are carried out."""

    reply: Reply
    results: Sequence[tuple[ToolCall, Any]]  # in the order of the calls
    notebook: Notebook  # what the run remembers after them

    @property
    def messages(self) -> list[Message]:
        """The reply's message, followed by the result of each call."""
        return [message_of(self.reply), *map(_tool_message, self.results)]


def converse(
    calls: ModelCalls,
    messages: Sequence[Message],
    toolset: Toolset,
    max_iterations: int,
    additions: Additions,
    bounds: Bounds | None = None,
    on_stop: OnStop | None = None,
) -> list[str]:
    """Run turns until the model replies without a call; return the texts of all turns.

    Args:
        bounds: on equal calls in a row; None: unlimited.
        on_stop: is given such a reply; if the model must go on, it is told what this returns.

    Raises:
        ModelCallFailed, MustWait: as `ModelCalls.ask`.
        IterationsExhausted: turn `max_iterations` still asks for calls.
        Parked: a call needs a person's consent.
    """
    messages, notebook = list(messages), Notebook()
    texts = []
    for turn in range(1, max_iterations + 1):
        offered = additions.offered(toolset, notebook)
        reply = calls.ask(additions.told(messages, notebook), offered.declarations)
        texts.append(reply.text)
        if not reply.calls:
            told = None
            if on_stop is not None:
                notebook, told = on_stop(notebook, reply, turn == max_iterations)
            if told is None:
                return texts
            messages += [reply.message] if reply.text.strip() else []
            messages.append({"role": "user", "content": told})
        elif turn < max_iterations:
            refused = refused_calls(reply, messages, bounds)
            done = carry_out(calls, offered, reply, notebook, refused)
            messages, notebook = messages + done.messages, done.notebook
    still = "calling tools" if reply.calls else "having agents of its own"
    raise IterationsExhausted(f"hit max_iterations ({max_iterations}) while still {still}")


def carry_out(
    calls: ModelCalls,
    toolset: Toolset,
    reply: Reply,
    notebook: Notebook,
    refused: Mapping[str, Any],
) -> CarriedOut:
    """Carry out the calls of a reply, of which there is at least one.

    Args:
        notebook: what the run remembers.
        refused: results of calls that must not be carried out, by call id.

    Raises:
        ConversationTooLarge, Parked: as `converse`.
    """
    made = _CallsOfReply(calls, toolset, reply, notebook, refused)
    results = made.results()
    return CarriedOut(reply, results, made.notebook)


class _Place(NamedTuple):
    """A call's position among the calls of the same function in a reply."""

    number: int  # from 1
    wait_id: str  # names the wait, if the call waits for something


@dataclass(slots=True)
class _CallsOfReply:
    """The calls of one reply. Those to MCP servers run concurrently; all others run in order.

    If a reply has more calls than the limit, only the first ones are carried out.
    """

    calls: ModelCalls
    toolset: Toolset
    reply: Reply
    notebook: Notebook
    refused: Mapping[str, Any]
    _values: dict[str, Any] = field(default_factory=dict)
    _awaited: list[Asked | ChildEnd] = field(default_factory=list)
    _places: Mapping[str, _Place] = field(default_factory=dict)
    _is_pure: bool = False  # then the commit that follows at once records these calls

    @property
    def _visit(self) -> Visit[Any]:
        return self.calls.visit

    @property
    def _consents(self) -> Consents:
        return Consents(self._visit, self.calls.transcript, self.toolset.consent_within_s)

    def results(self) -> Sequence[tuple[ToolCall, Any]]:
        """Return the calls with their results, in order."""
        made, most = self.reply.calls, self._visit.limits.calls
        calls, surplus = made[:most], made[most:]
        self._places = _places(made, self.toolset.aliases, self.calls.transcript.turn)
        self._is_pure = all(
            isinstance(self._tool(call), PureFunction | None) or call.call_id in self.refused
            for call in calls
        )
        if not self._is_pure:
            self.calls.transcript.require_recorded()
        self._consents.take_answer()
        why = f"not executed: only the first {most} calls of a reply are executed (calls_limit)"
        left = [call for call in calls if not self._is_known(call)]
        if left:
            self._tell_of_surplus(len(surplus), why)
            self._carry_out(left)
        if self._awaited:
            done = tuple(self._places[call_id].wait_id for call_id in self._values)
            raise Parked(Awaiting(tuple(self._awaited), done), self.notebook)
        # Those not carried out need no record.
        results = [(call, self._values[call.call_id]) for call in calls]
        return results + [(call, call_error(why).value) for call in surplus]

    def _is_known(self, call: ToolCall) -> bool:
        """Return whether a call's result is recorded; if so, restore what the run learnt by it."""
        known, value = self.calls.transcript.result_of(call.call_id)
        if not known:
            return False
        self._values[call.call_id] = value
        tool = self._tool(call)
        if isinstance(tool, ProgramFunction | None) or call.call_id in self.refused:
            return True
        with suppress(CallRefused):
            made = tool.read(self._made(call, tool))
            if isinstance(tool, PureFunction):
                self.notebook, _ = tool.compute(self.notebook, made.arguments)
            elif not is_refusal(value):
                self.notebook = tool.learn(self.notebook, made, value)
        return True

    def _tell_of_surplus(self, count: int, why: str) -> None:
        if count:
            event = ToolCalled(self._visit.node_id, f"{count} more", 0, why)
            self._visit.services.narration.narrate(event)
            self._visit.services.run_log.keep("tool", f"{count} more calls {why}")

    def _carry_out(self, calls: Sequence[ToolCall]) -> None:
        beside, in_order = list[ToolCall](), list[ToolCall]()
        for call in calls:
            is_beside = isinstance(self._tool(call), ServerFunction)
            (beside if is_beside else in_order).append(call)
        if not beside:
            self._one_by_one(in_order)
            return
        threads = min(len(beside), self._visit.limits.call_threads)
        with ThreadPoolExecutor(threads, "tool-call") as pool:
            futures: list[Future[None]] = [pool.submit(self._one_by_one, [c]) for c in beside]
            self._one_by_one(in_order)
        for future in futures:
            future.result()

    def _tool(self, call: ToolCall) -> OfferedFunction | None:
        return self.toolset.find(call.name)

    def _one_by_one(self, calls: Sequence[ToolCall]) -> None:
        for call in calls:
            began = monotonic()
            try:
                self._call(call, began)
            except CallRefused as refused:
                self._keep(call, CallResult(refused.value), began)

    def _call(self, call: ToolCall, began: float) -> None:
        """Carry out one call, and record its result; or note what it waits for.

        Raises:
            Parked: a person is asked for consent.
        """
        if call.call_id in self.refused:
            raise CallRefused(self.refused[call.call_id])
        tool = self._tool(call)
        made = self._made(call, tool)
        match tool:
            case None:
                raise call_error(_why_unknown(call.name))
            case ProgramFunction():
                approvals = self._consents.given(call)
                left_s = self._visit.seconds_left(self.calls.timeout_s)
                outcome = tool.call(replace(made, approvals=approvals, timeout_s=left_s))
                if isinstance(outcome, NeedsConfirmation):
                    raise Parked(self._consents.ask(call, outcome.question), self.notebook)
                self._keep(call, CallResult(outcome.value), began)
            case PureFunction():
                self.notebook, value = tool.compute(self.notebook, tool.read(made).arguments)
                self._keep(call, CallResult(value), began)
            case TransitionFunction() | WaitingFunction():
                made = tool.read(made)
                result = self._begun(tool, call, made)
                if isinstance(result, CallResult):
                    self._keep(call, result, began)
                    self.notebook = tool.learn(self.notebook, made, result.value)
                else:
                    wait_id = self._places[call.call_id].wait_id
                    self._awaited.append(replace(result, call=wait_id))
            case _:
                assert_never(tool)

    def _made(self, call: ToolCall, tool: OfferedFunction | None) -> FunctionCall:
        try:
            arguments = parse_arguments(call)
        except ValueError as error:
            raise call_error(f"{call.name}: {error}") from None
        return FunctionCall(
            call.name if tool is None else tool.name,
            arguments,
            self.calls.transcript.key_of(call.call_id),
            self._places[call.call_id].number,
        )

    def _begun(
        self, tool: TransitionFunction | WaitingFunction, call: ToolCall, made: FunctionCall
    ) -> CallResult | Asked | ChildEnd:
        if isinstance(tool, TransitionFunction):
            return tool.act(self.notebook, made)
        arrived = self._visit.arrived.get(self._places[call.call_id].wait_id)
        if arrived is None:
            return tool.begin(self.notebook, made)
        return tool.finish(self.notebook, made, arrived)

    def _keep(self, call: ToolCall, result: CallResult, began: float) -> None:
        mask, value = self._visit.mask, result.value
        failure = self._failure(value)
        event = ToolCalled(
            self._visit.node_id,
            tool=mask(call.name),
            ms=round((monotonic() - began) * 1000),
            failure=failure,
            arguments=mask(call.arguments[:_MASKED_CHARACTERS])[:_SHOWN_CHARACTERS],
        )
        if self._is_pure:
            self._visit.services.narration.note(event)
        else:
            try:
                self.calls.transcript.keep_result(
                    call.call_id, value, event, result.usage, result.recorder
                )
            except tuple(result.refusals) as error:
                raise refusal(result.refusals[type(error)]()) from None
        self._values[call.call_id] = value
        self._emit_span(call, value, failure, began)
        text = f"{call.name} {call.arguments}\n{_content(value)}"
        self._visit.services.run_log.keep("tool", mask(text))

    def _emit_span(self, call: ToolCall, value: Any, failure: str | None, began: float) -> None:
        calls = self._visit.services.calls
        if calls is None:
            return
        calls.used_tool(
            call,
            self.calls.transcript.turn,
            began=began,
            is_remote=isinstance(self._tool(call), ServerFunction),
            result=_content(value),
            failure=failure,
            mask=self._visit.mask,
        )
        if not self._is_pure:  # else the commit records it
            calls.count(self._visit.graph.name)

    def _failure(self, value: Any) -> str | None:
        """Return in one line why a call failed, from the end of stderr; None if it succeeded."""
        if isinstance(value, Mapping) and "tool_call_loop_alert" in value:
            return "refused: the model repeats this call"
        if not (isinstance(value, Mapping) and "tool_call_error" in value):
            return None
        said = str(value.get("stderr", "")).strip().rpartition("\n")[2]
        reason = f"{value['tool_call_error']}: {said}" if said else str(value["tool_call_error"])
        return self._visit.mask(reason)[:_NARRATED_CHARACTERS]


def _why_unknown(name: str) -> str:
    """Return why a call of a function that is not offered is not carried out."""
    if name.startswith(_JOBS):
        return (
            f"{name}: there are no background jobs; call the tool itself, its result comes with "
            "your next turn"
        )
    return f"there is no tool '{name}'; use only the tools that are listed"


def _places(calls: Sequence[ToolCall], aliases: Mapping[str, str], turn: int) -> dict[str, _Place]:
    later = f"@{turn}" if turn > 1 else ""  # ids of waits are unique in a visit
    counts: Counter[str] = Counter()
    found = {}
    for call in calls:
        name = aliases.get(call.name, call.name)
        counts[name] += 1
        number = counts[name]
        nth = f"/{number}" if number > 1 else ""
        found[call.call_id] = _Place(number, f"{name}{later}{nth}")
    return found


def _tool_message(done: tuple[ToolCall, Any]) -> Message:
    call, value = done
    return {"role": "tool", "tool_call_id": call.call_id, "content": _content(value)}


def _content(value: Any) -> str:
    return value if isinstance(value, str) else encode(value)
