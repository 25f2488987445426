"""The tool loop: ask the model, carry out the calls in its reply, ask again.

Nothing here keeps state: what was asked and done is in the visit's transcript, so a loop that
another worker takes over, or that was parked on a question, continues where it was.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from time import monotonic
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.consent import guard_id
from sleipnir.scheduler.runs.conversation.asking import TOO_LARGE_CALL, is_too_large
from sleipnir.scheduler.runs.conversation.loop_check import Bounds
from sleipnir.scheduler.runs.events import ToolCalled
from sleipnir.scheduler.runs.model import QUESTION, GuardedCall
from sleipnir.worker.conversation import cut_replies
from sleipnir.worker.conversation.arguments import parse_arguments
from sleipnir.worker.conversation.repeated_calls import repeated
from sleipnir.worker.conversation.tool_set import (
    CallOutcome,
    Effect,
    EffectRefused,
    Recorder,
    ResolvedTool,
    ToolInvocation,
    Toolset,
    Waits,
)
from sleipnir.worker.conversation.transcript import Consent
from sleipnir.worker.llm.calls import ModelCalls
from sleipnir.worker.llm.client import Message, Reply, ToolCall
from sleipnir.worker.tools.call import Completed, NeedsConfirmation
from sleipnir.worker.visit.masking import mask_json
from sleipnir.worker.visit.outcome import NOT_IN_TIME, Asked, Awaiting, ChildEnd

# Of a call's arguments, shown to people. Of those that are masked before, the last ones are not
# shown: they might be a part of a secret.
_SHOWN_CHARACTERS = 200
_MASKED_CHARACTERS = 2_000
_NARRATED_CHARACTERS = 2_000  # in the failure of a call
_NONE: Mapping[str, Any] = MappingProxyType({})


class Parked(Exception):
    """The loop must wait for what its calls wait for; the visit parks with `outcome`."""

    def __init__(self, outcome: Asked | Awaiting) -> None:
        self.outcome = outcome
        super().__init__(outcome)


class IterationsExhausted(Exception):
    """The model still calls tools after its last turn."""


class Additions(Protocol):
    """Functions and messages that are added to a conversation as it goes on, turn by turn."""

    def offered(self, toolset: Toolset) -> Toolset:
        """Return the functions for the next turn."""

    def told(self, messages: list[Message]) -> list[Message]:
        """Return the messages for the next turn."""


def converse(
    calls: ModelCalls,
    messages: Sequence[Message],
    toolset: Toolset,
    max_iterations: int,
    additions: Additions,
    bounds: Bounds | None = None,
) -> list[str]:
    """Run turns until the model replies without a call; return the texts of all turns.

    Args:
        bounds: on equal calls in a row; None: unlimited.

    Raises:
        ModelCallFailed, MustWait: as `ModelCalls.ask`.
        IterationsExhausted: turn `max_iterations` still asks for calls.
        Parked: a call needs a person's consent.
    """
    messages = list(messages)
    texts = []
    for turn in range(1, max_iterations + 1):
        offered = additions.offered(toolset)
        reply = calls.ask(additions.told(messages), offered.declarations)
        texts.append(reply.text)
        if not reply.calls:
            return texts
        if turn < max_iterations:
            refused = repeated(bounds, messages, reply) if bounds is not None else _NONE
            messages += carry_out(calls, offered, reply, refused)
    raise IterationsExhausted(f"hit max_iterations ({max_iterations}) while still calling tools")


def carry_out(
    calls: ModelCalls,
    toolset: Toolset,
    reply: Reply,
    refused: Mapping[str, Any] = _NONE,
    finish_last: Callable[[Any], Any] = lambda value: value,
) -> list[Message]:
    """Carry out the calls of a reply; return its message, followed by the result of each call.

    Those of a reply that was cut off are not carried out.

    Args:
        refused: results of calls that must not be carried out, by call id.
        finish_last: applied to the last result, once all calls are carried out.

    Raises:
        ConversationTooLarge, Parked: as `converse`.
    """
    refused = {**refused, **cut_replies.refusals(reply)}
    turn = _Turn(calls, toolset, reply, refused, finish_last)
    return [cut_replies.message_of(reply), *turn.results()]


class _Turn:
    """The calls of one reply. Those to MCP servers run concurrently; all others run in order.

    If a reply has more calls than the limit, only the first ones are carried out.
    """

    def __init__(
        self,
        calls: ModelCalls,
        toolset: Toolset,
        reply: Reply,
        refused: Mapping[str, Any],
        finish_last: Callable[[Any], Any],
    ) -> None:
        self._visit = calls.visit
        self._timeout_s = calls.timeout_s
        self._transcript = calls.transcript
        self._toolset = toolset
        self._places = _places(reply.calls, toolset.aliases)
        self._awaited: list[Asked | ChildEnd] = []
        self._refused = refused
        self._finish_last = finish_last
        limits = self._visit.limits
        self._calls = reply.calls[: limits.calls]
        # Not carried out, so there is nothing to record.
        self._surplus = reply.calls[limits.calls :]
        self._values: dict[str, Any] = {}
        # If so, the commit that follows at once records these calls.
        self._at_once = all(map(self._is_at_once, self._calls))

    def results(self) -> Iterator[Message]:
        """Yield a tool message for each call, in the order of the calls."""
        if not self._at_once:
            self._transcript.require_recorded()
        self._take_consent()
        left = []
        for call in self._calls:
            known, value = self._transcript.result_of(call.call_id)
            if known:
                self._values[call.call_id] = value
                self._repeat_effect(call, value)
            else:
                left.append(call)
        if left:
            self._tell_of_surplus()
            self._carry_out(left)
        if self._awaited:
            done = tuple(self._places[call_id].wait_id for call_id in self._values)
            raise Parked(Awaiting(tuple(self._awaited), done))
        refused = _refused(self._refusal()).value
        results = [(call, self._values[call.call_id]) for call in self._calls]
        results += [(call, refused) for call in self._surplus]
        *others, (last, value) = results
        yield from (_tool_message(call, each) for call, each in others)
        yield _tool_message(last, self._finish_last(value))

    def _take_consent(self) -> None:
        """Record a person's answer to the question that the visit has waited for."""
        guard = self._transcript.open_guard
        if guard is not None and (arrived := self._visit.arrived.get(guard)) is not None:
            self._transcript.answer(json.loads(arrived)["answer"] if arrived else NOT_IN_TIME)

    def _refusal(self) -> str:
        most = self._visit.limits.calls
        return f"not executed: only the first {most} calls of a reply are (calls_limit)"

    def _tell_of_surplus(self) -> None:
        if self._surplus:
            count = len(self._surplus)
            event = ToolCalled(self._visit.node_id, f"{count} more", 0, self._refusal())
            self._visit.services.narration.narrate(event)
            self._visit.services.run_log.keep("tool", f"{count} more calls {self._refusal()}")

    def _carry_out(self, calls: Sequence[ToolCall]) -> None:
        beside = [call for call in calls if self._overlaps(call)]
        in_order = [call for call in calls if not self._overlaps(call)]
        if not beside:
            self._one_by_one(in_order)
            return
        threads = min(len(beside), self._visit.limits.call_threads)
        with ThreadPoolExecutor(threads, "tool-call") as pool:
            futures: list[Future[None]] = [pool.submit(self._one_by_one, [c]) for c in beside]
            self._one_by_one(in_order)
        for future in futures:
            future.result()

    def _tool(self, call: ToolCall) -> ResolvedTool | None:
        toolset = self._toolset
        return toolset.tools.get(toolset.aliases.get(call.name, call.name))

    def _is_at_once(self, call: ToolCall) -> bool:
        tool = self._tool(call)
        return tool is None or tool.at_once or call.call_id in self._refused

    def _overlaps(self, call: ToolCall) -> bool:
        tool = self._tool(call)
        return tool is not None and tool.overlaps

    def _one_by_one(self, calls: Sequence[ToolCall]) -> None:
        for call in calls:
            began = monotonic()
            outcome = self._call(call)
            if isinstance(outcome, NeedsConfirmation):
                outcome = self._ask_for_consent(call, outcome.question)
            if isinstance(outcome, Waits):
                wait_id = self._places[call.call_id].wait_id
                self._awaited.append(replace(outcome.thing, call=wait_id))
                continue
            elapsed_s = monotonic() - began
            if not isinstance(outcome, Effect):
                self._keep(call, outcome.value, elapsed_s)
                continue
            try:
                self._keep(call, outcome.value, elapsed_s, outcome.record)
            except EffectRefused as refused:
                self._keep(call, refused.value, elapsed_s)

    def _ask_for_consent(self, call: ToolCall, question: str) -> Completed:
        """Return the refusal of a guarded call that no person can be asked about.

        Raises:
            Parked: a person is asked.
        """
        if self._visit.context.headless:
            return _refused(f"{call.name}: declined, no person is available: {question}")
        if is_too_large(question, [call.arguments]):
            return _refused(f"{call.name}: declined, {TOO_LARGE_CALL}; split it into several calls")
        arguments = mask_json(parse_arguments(call), self._visit.mask)
        guard = self._guard_of(call, question)
        raise Parked(
            Asked(
                "confirm",
                question,
                ("yes", "no"),
                turn=self._transcript.question(call.call_id, question, guard),
                call=guard,
                allowed_s=self._toolset.consent_within_s,
                guarded_call=GuardedCall(call.name, arguments),
            )
        )

    def _key_of(self, call: ToolCall) -> str:
        """Return what identifies a call in its run, the same for every try of it."""
        # Call ids are unique within a reply only.
        visit = self._visit
        return f"{visit.idempotency_key}:{visit.attempt}:{self._transcript.turn}:{call.call_id}"

    def _guard_of(self, call: ToolCall, question: str) -> str:
        return guard_id(self._key_of(call), call.name, call.arguments, question)

    def _consents(self, call: ToolCall) -> Sequence[Consent]:
        """Return the answers to the questions of exactly this call."""
        return [
            each
            for each in self._transcript.answers_to(call.call_id)
            if each.guard in (self._guard_of(call, each.question), QUESTION)
        ]

    def _call(self, call: ToolCall, known: Any = None) -> CallOutcome:
        if call.call_id in self._refused:
            return Completed(self._refused[call.call_id])
        try:
            arguments = parse_arguments(call)
        except ValueError as error:
            return _refused(f"{call.name}: {error}")
        tool = self._tool(call)
        if tool is None:
            return _refused(f"there is no tool '{call.name}'; use only the tools that are listed")
        consents = self._consents(call)
        for question, answer, _ in consents:
            if answer == NOT_IN_TIME:
                return _refused(f"{call.name}: declined, nobody answered in time: {question}")
            if answer != "yes":
                return _refused(f"{call.name}: declined by a person: {question}")
        visit = self._visit
        left_s = visit.seconds_left(self._timeout_s)
        place = self._places[call.call_id]
        return tool.call(
            ToolInvocation(
                tool.name,
                arguments,
                self._key_of(call),
                tuple(each.question for each in consents),
                left_s,
                place=place.number,
                known=known,
                arrived=visit.arrived.get(place.wait_id),
            )
        )

    def _repeat_effect(self, call: ToolCall, value: Any) -> None:
        """Repeat, for this try's commit, the effect of a call whose result is recorded."""
        tool = self._tool(call)
        if tool is not None and tool.in_commit:
            self._call(call, value)

    def _keep(
        self, call: ToolCall, value: Any, elapsed_s: float, recorder: Recorder | None = None
    ) -> None:
        mask = self._visit.mask
        event = ToolCalled(
            self._visit.node_id,
            tool=mask(call.name),
            ms=round(elapsed_s * 1000),
            failure=self._failure(value),
            arguments=mask(call.arguments[:_MASKED_CHARACTERS])[:_SHOWN_CHARACTERS],
        )
        if self._at_once:
            self._visit.services.narration.note(event)
        else:
            self._transcript.keep_result(call.call_id, value, event, recorder)
        self._values[call.call_id] = value
        text = f"{call.name} {call.arguments}\n{_content(value)}"
        self._visit.services.run_log.keep("tool", mask(text))

    def _failure(self, value: Any) -> str | None:
        """Return in one line why a call failed, from the end of stderr; None if it succeeded."""
        if isinstance(value, Mapping) and "tool_call_loop_alert" in value:
            return "refused: the model repeats this call"
        if not (isinstance(value, Mapping) and "tool_call_error" in value):
            return None
        said = str(value.get("stderr", "")).strip().rpartition("\n")[2]
        reason = f"{value['tool_call_error']}: {said}" if said else str(value["tool_call_error"])
        return self._visit.mask(reason)[:_NARRATED_CHARACTERS]


class _Place(NamedTuple):
    """A call's position among the calls of the same function in a reply."""

    number: int  # from 1
    wait_id: str  # names the wait, if the call waits for something


def _places(calls: Sequence[ToolCall], aliases: Mapping[str, str]) -> dict[str, _Place]:
    counts: Counter[str] = Counter()
    found = {}
    for call in calls:
        name = aliases.get(call.name, call.name)
        counts[name] += 1
        number = counts[name]
        found[call.call_id] = _Place(number, name if number == 1 else f"{name}/{number}")
    return found


def _refused(reason: str) -> Completed:
    return Completed({"tool_call_error": reason})


def _tool_message(call: ToolCall, value: Any) -> Message:
    return {"role": "tool", "tool_call_id": call.call_id, "content": _content(value)}


def _content(value: Any) -> str:
    return value if isinstance(value, str) else encode(value)
