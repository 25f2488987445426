"""Renders a run's events as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from sleipnir.scheduler.runs.events import (
    ChildrenDropped,
    ChildStarted,
    Continued,
    Departure,
    Event,
    ItemCommitted,
    ItemWentOn,
    ModelCalled,
    Paused,
    QuestionAnswered,
    QuestionAsked,
    ReplyChecked,
    ReplyCut,
    ReplyLimited,
    RetryScheduled,
    RunEnded,
    RunForked,
    RunMoved,
    RunRetried,
    RunSubmitted,
    StepCommitted,
    TextStreamed,
    ToolCalled,
    ToolPrinted,
    UnknownEvent,
    VisitDelayed,
    WorkerLost,
)
from sleipnir.scheduler.runs.failures import with_failures
from sleipnir.scheduler.runs.model import Status

_WIDTH = 120
_TURN = "turn"  # type of the only node of normal agents


def render(event: Event) -> list[str]:
    """Return the lines of one event, each at most 120 characters; none for unknown kinds."""
    return [_fitting(f"▸ {line}") for line in _lines(event)]


def render_end_of_child(child: ChildStarted, event: RunEnded) -> str:
    """Return the line on a child run's end for those who watch its parent."""
    return _fitting(f"▸   agent {child.agent}: run {child.run_id} {_outcome(event)}")


def _lines(event: Event) -> Iterator[str]:  # noqa: C901 - one short case a kind
    match event:
        case RunSubmitted():
            yield from _submitted(event)
        case RunForked():
            yield from _forked(event)
        case RunRetried():
            yield from _retried(event)
        case RunMoved():
            yield f"moved to {'any machine' if event.machine is None else event.machine}"
        case StepCommitted():
            yield from _step(event)
        case ModelCalled(_, model, tools, source, batch):
            known = f" ({source})" if source else f" in provider batch {batch}" if batch else ""
            yield f"  llm call: model={model} tools={','.join(tools) or '<none>'}{known}"
        case ReplyLimited() | ReplyCut() | ReplyChecked():
            yield f"  {_about_reply(event)}"
        case ToolPrinted():
            yield f"    {event.text}"
        case ToolCalled(_, tool, ms, failure):
            yield f"  tool {tool}: " + (f"failed: {failure}" if failure else f"{ms}ms")
        case RetryScheduled(_, attempt, of, delay_s, reason):
            yield f"  retry {attempt}/{of} in {delay_s:.1f}s: {reason}"
        case VisitDelayed():
            known = f" {event.delay_s:.1f}s" if event.delay_s else ""
            yield f"  waiting{' for a person' if event.for_person else known}: {event.reason}"
        case WorkerLost(node, worker):
            yield f"{node}: worker {worker} was lost; another one takes over"
        case Continued(_, number, most, still_open):
            yield f"  auto-continue {number}/{most}, {still_open} open"
        case Paused(_, reason):
            yield f"paused: {reason}"
        case ChildrenDropped(_, ids):
            yield f"  warning: cancelled agents that nobody collected: {', '.join(ids)}"
        case ChildStarted():
            yield f"  agent {event.agent}: run {event.run_id}"
        case ItemCommitted() | ItemWentOn():
            yield from _item(event)
        case QuestionAsked(node, text):
            yield f"{node} waiting: {(text.splitlines() or [''])[0]}"
        case QuestionAnswered():
            yield f"{event.node} answered" + (f" by {event.by}" if event.by else "")
        case RunEnded():
            yield f"{'agent' if event.converses else 'graph'} {_outcome(event)}"
        case TextStreamed() | UnknownEvent():
            pass
        case _:
            assert_never(event)


def _about_reply(event: ReplyLimited | ReplyCut | ReplyChecked) -> str:
    match event:
        case ReplyLimited(_, tokens, budget):
            return f"reply limited to {tokens} tokens by budget {budget}"
        case ReplyCut(_, tokens):
            return "reply cut off" + (f" after {tokens} tokens" if tokens else "")
        case ReplyChecked(_, number, most, say):
            return f"check {number}/{most}: {say}"


def _submitted(event: RunSubmitted) -> Iterator[str]:
    start, node_type = event.start
    yield (
        f"agent: {event.agent}" if node_type == _TURN else f"graph: {event.agent} (start: {start})"
    )
    for warning in event.warnings:
        yield f"warning {warning}"
    if node_type != _TURN:
        yield f"{start} ({node_type})"


def _forked(event: RunForked) -> Iterator[str]:
    converses = bool(event.next) and event.next[0][1] == _TURN
    what, unit = ("agent", "turn") if converses else ("graph", "step")
    yield f"{what}: {event.agent} (fork of {event.run_id} after {unit} {event.step})"
    yield from _changed(event.changed, event.digests)
    if converses:
        yield f"turn {event.step + 1}"
    else:
        yield from _following(event.next)


def _retried(event: RunRetried) -> Iterator[str]:
    nodes = ", ".join(event.nodes)
    yield f"retry: from step {event.step} ({nodes}), try {event.number}"
    yield from _changed(event.changed, event.digests)


def _step(event: StepCommitted) -> Iterator[str]:
    departures, following = event.departures, event.next
    for departure in departures:
        if departure.failure is not None:
            yield f"{departure.id} failed, going to {', '.join(departure.to)}: {departure.failure}"
    for warning in event.warnings:
        yield f"warning {warning}"
    for route in event.dropped:
        yield f"warning route {route} was dropped, an end node finished"
    targets = ", ".join(node for node, _ in following)
    if following and following[0][1] == _TURN:
        yield f"turn {event.step + 1}"
        return
    if len(departures) == 1 and targets:
        if departures[0].failure is None or departures[0].route is not None:
            yield _departed(departures[0])
    elif len(departures) > 1 and targets:
        yield from (_departed(each) for each in departures if each.route is not None)
        yield f"super-step done -> {targets}"
    yield from _following(following)


def _departed(departure: Departure) -> str:
    why = "" if departure.route is None else f" ({departure.route[1]})"
    return f"{departure.id} -> {', '.join(departure.to)}{why}"


def _following(nodes: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield lines for the nodes that begin now."""
    if len(nodes) > 1:
        yield f"super-step: {', '.join(node for node, _ in nodes)}"
    indent = "  " if len(nodes) > 1 else ""
    for node, node_type in nodes:
        yield f"{indent}{node} ({node_type})"


def _changed(keys: Sequence[str], digests: tuple[str, str] | None) -> Iterator[str]:
    """Yield lines for what a fork or retry has changed."""
    if keys:
        yield f"  state changed: {', '.join(keys)}"
    if digests is not None:
        yield f"  agent as it is now: {digests[0][:12]} -> {digests[1][:12]}"


def _item(event: ItemCommitted | ItemWentOn) -> Iterator[str]:
    for warning in event.warnings:
        yield f"warning {warning}"
    if isinstance(event, ItemWentOn):
        if event.failure is not None:
            place = f"{event.map}[{event.index}] {event.node}"
            yield f"  {place} failed, going to {event.target}: {event.failure}"
        return
    if event.failure is not None:
        yield f"  {event.map} item [{event.index}] failed: {event.failure}"
    yield f"  {event.map} [{event.done}/{event.total}] done"


def _outcome(event: RunEnded) -> str:
    elapsed = f"{event.elapsed_ms / 1000:.2f}s"
    if event.status == Status.SUCCEEDED:
        return f"done in {elapsed}{with_failures(event.failed_nodes or 0)}"
    failure, reason = event.failure, ""
    if failure and event.status == Status.FAILED:
        place = f" at {failure.node}" if failure.node else ""
        reason = f": {failure.code}{place}: {failure.message}"
    elif failure:
        reason = f": {failure.message}"
    return f"{event.status.replace('_', ' ')} in {elapsed}{reason}"


def _fitting(line: str) -> str:
    """Return one line with control characters escaped, cut to the width."""
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    return safe if len(safe) <= _WIDTH else safe[: _WIDTH - 1] + "…"
