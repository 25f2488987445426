"""Renders a run as a page of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sleipnir.graphs.errors import BundleError
from sleipnir.scheduler.runs.answers import how_to_answer
from sleipnir.scheduler.runs.events import RunEnded, VisitDelayed
from sleipnir.scheduler.runs.failures import NodeFailure
from sleipnir.scheduler.runs.history import MOST_DECISIONS, Decisions, NodeTimes, decisions_of
from sleipnir.scheduler.runs.model import Failure, Question, Run
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.views.archive.place import archived_document
from sleipnir.scheduler.views.documents import directory_of, elapsed_s, left_out, origin, place_of
from sleipnir.scheduler.views.runs import MOST_CHILDREN
from sleipnir.scheduler.views.text.formatting import (
    age,
    call_lines,
    colored,
    columns,
    cost,
    first_line,
    more_of,
    outcome,
    place_of_failure,
    tokens,
)
from sleipnir.scheduler.views.text.terminal_output import printable
from sleipnir.scheduler.views.timeline import times_of_nodes
from sleipnir.scheduler.views.waits import waits_of

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.map_items import MapItem
    from sleipnir.scheduler.store.queries.lists import ChildRows
    from sleipnir.scheduler.views.types.records import ArchivedDocument

# How many omitted child runs are counted by status.
_MOST_COUNTED = 5_000
# How many decisions are listed.
_MOST_DECISIONS = 100
_NONE_DECIDED = Decisions()
_ITEMS = ("INDEX", "STATE", "NODE", "TOOK", "TOKENS", "COST", "REASON")
_NODES = ("NODE", "TYPE", "VISITS", "TOTAL", "AVG", "MAX", "WAITED", "PARKED", "TOKENS", "COST")


def items(found: Sequence[MapItem]) -> Iterator[str]:
    """Yield a map's items as a table, after the counts by state."""
    counts = Counter(item.state for item in found)
    yield ", ".join(f"{number:,} {state.replace('_', ' ')}" for state, number in counts.items())
    rows = [
        (
            str(item.index),
            item.state.replace("_", " "),
            item.node or "-",
            "-" if item.ms is None else f"{item.ms / 1000:.1f}s",
            "-" if item.usage is None else tokens(item.usage),
            "-" if item.usage is None else cost(item.usage),
            first_line(item.reason or "", 200),
        )
        for item in found
    ]
    yield from columns(_ITEMS, rows)


def page(
    run: Run,
    times: Sequence[NodeTimes],
    types: Mapping[str, str],
    children: ChildRows,
    questions: Sequence[Question],
    *,
    decisions: Decisions = _NONE_DECIDED,
    failures: Sequence[NodeFailure],
    waits: str | None,
    now_ms: int,
    earlier_ends: Sequence[tuple[int, RunEnded]] = (),
    archived: ArchivedDocument | None = None,
) -> Iterator[str]:
    """Yield the lines of `sleipnir show`.

    Args:
        failures: node failures that did not end it, handled ones included.
        waits: what blocks an open run besides its questions.
        earlier_ends: the ends of earlier tries, each with its instant in ms.
        archived: where it is archived.
    """
    yield from columns(("run", run.run_id), list(_facts(run, waits, now_ms, archived)))
    yield from _ends(run, earlier_ends)
    yield from _failures(run, failures)
    if times:
        yield ""
        yield from columns(_NODES, [_node(row, types) for row in times])
    yield from _decisions(decisions)
    if children.rows:
        yield ""
        rows = [(child.run_id, child.agent, colored(child.status)) for child in children.rows]
        yield from columns(("CHILD", "AGENT", "STATUS"), rows)
    if more := left_out(children):
        yield more_of(more)
    for question in questions:
        yield ""
        yield f"{question.node} of run {question.run_id} asks: {printable(question.text)}"
        if question.options:
            yield f"  options: {printable(', '.join(question.options))}"
        yield from (f"  {line}" for line in call_lines(question))
        yield f"  answer it with: {how_to_answer(question)}"
    if run.output is not None:
        yield ""
        yield printable(run.output.removesuffix("\n"))


def _decisions(decisions: Decisions) -> Iterator[str]:
    """Yield the routes that conditions chose; of many the last ones."""
    if not decisions.last:
        return
    yield ""
    rows = [
        (str(each.step), each.node, ", ".join(each.to), first_line(each.label))
        for each in decisions.last[-_MOST_DECISIONS:]
    ]
    yield from columns(("STEP", "NODE", "WENT TO", "ROUTE"), rows)
    before = decisions.earlier + len(decisions.last) - _MOST_DECISIONS
    if before > 0:
        yield f"and {before:,} before: --json lists the last {MOST_DECISIONS:,}"


def _facts(
    run: Run, waits: str | None, now_ms: int, archived: ArchivedDocument | None
) -> Iterator[tuple[str, str]]:
    yield "agent", run.agent
    if directory := directory_of(run.agent, run.context.agent_path):
        yield "from", printable(origin(directory))
    yield "status", outcome(run.status, run.failed_nodes, run.tries)
    if place := place_of(run):
        yield "at", place
    if waits is not None:
        yield "waits", printable(waits)
    yield "created", f"{to_rfc3339(run.created_at)}, {age((now_ms - run.created_at) / 1000)} ago"
    yield "took", f"{elapsed_s(run, now_ms):.2f} s"
    if archived is not None:
        since = "" if archived["at"] is None else f"{archived['at']}, "
        yield "archived", printable(f"{since}{archived['object']}")
    if run.usage:
        yield "usage", f"{tokens(run.usage)} tokens, {cost(run.usage)}"
    if run.forked_from is not None:
        yield "fork of", f"{run.forked_from[0]} after step {run.forked_from[1]}"
    session = run.context.session
    for name, value in (
        ("session", session),
        ("parent", run.parent),
        ("batch", run.batch),
        ("item", run.item),
    ):
        if value:
            yield name, first_line(value)
    for name, value in run.labels.items():
        yield "label", first_line(f"{name}={value}")


def _ends(run: Run, earlier: Sequence[tuple[int, RunEnded]]) -> Iterator[str]:
    """Yield how earlier tries ended and why the run failed: in full, never cut to a column."""
    for at, ended in earlier:
        took = f"{ended.elapsed_ms / 1000:.2f} s"
        how = f"try {ended.number or 1} {ended.status.replace('_', ' ')} after {took}"
        reason = f": {_reason(ended.failure)}" if ended.failure else ""
        yield f"earlier  {to_rfc3339(at)}: {how}{reason}"
    if run.failure is not None:
        yield f"error    {_reason(run.failure)}"


def _reason(failure: Failure) -> str:
    where = f" at node '{failure.node}'" if failure.node else ""
    return f"{failure.code}{where}: {_indented(failure.message)}"


def _indented(message: str) -> str:
    """Return a printable message with the lines after the first one indented."""
    return printable(message).rstrip("\n").replace("\n", "\n  ")


def _failures(run: Run, failures: Sequence[NodeFailure]) -> Iterator[str]:
    """Yield each failure in full, like a run's error."""
    for each in failures:
        yield ""
        how = "failed, its fallback took over" if each.handled else "failed"
        place, message = place_of_failure(each), _indented(each.message)
        yield f"{place} {how} in step {each.step}: {each.code}: {message}"
    untold = run.failed_nodes + run.handled_failures - len(failures)
    if untold > 0:
        yield ""
        yield f"and {untold:,} more failed: their messages were not kept"


def _node(row: NodeTimes, types: Mapping[str, str]) -> tuple[str, ...]:
    times = row.total_ms, row.avg_ms, row.max_ms, row.wait_ms, row.parked_ms
    return (
        row.node,
        types.get(row.node, ""),
        str(row.visits),
        *(f"{ms / 1000:.3f}s" for ms in times),
        tokens(row.usage),
        cost(row.usage),
    )


def lines_of(client: Client, run: Run) -> Iterator[str]:
    """Yield the lines of `sleipnir show` for a run as it is now."""
    records = client.queries
    yield from page(
        run,
        times_of_nodes(client, run),
        node_types(client, run),
        children_of(client, run, MOST_CHILDREN),
        client.open_questions(run.run_id),
        decisions=decisions_of(records.checkpoints(run.run_id)),
        failures=records.failures(run),
        waits=waits_of(client, [run]).get(run.run_id) or _rests_for(client, run),
        now_ms=records.now_ms(),
        earlier_ends=_earlier_ends(client, run),
        archived=archived_document(client, run),
    )


def children_of(client: Client, run: Run, most: int) -> ChildRows:
    """Return the first child runs of a run, and the counts of the others."""
    (found,) = client.queries.child_rows([run.run_id], most=most, counted=_MOST_COUNTED)
    return found


def _earlier_ends(client: Client, run: Run) -> list[tuple[int, RunEnded]]:
    """Return when and how earlier tries ended, as far as that is stored."""
    if run.tries == 1:
        return []
    told = client.queries.follow(run.run_id, block=False)
    return [
        (entry.at, entry.event)
        for entry in told
        if isinstance(entry.event, RunEnded) and (entry.event.number or 1) < run.tries
    ]


def _rests_for(client: Client, run: Run) -> str | None:
    """Return a temporary reason why the run rests, such as a provider's rate limit, or None."""
    newest = None if run.is_final else client.queries.newest_entry(run.run_id)
    if newest is None or not isinstance(newest.event, VisitDelayed):
        return None
    return newest.event.reason


def node_types(client: Client, run: Run) -> Mapping[str, str]:
    """Return the types of its nodes if its agent is still stored."""
    if run.context.converses:
        return dict.fromkeys(run.visits, "agent")
    try:
        return client.node_types(run)
    except BundleError:
        return {}
