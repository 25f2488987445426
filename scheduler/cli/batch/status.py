"""`sleipnir batch --status`: how a batch stands, and which of its results fulfil an expression."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

import click

from sleipnir.graphs.expressions.expression import Expression
from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.batch.results.by_node import BatchNodes, batch_nodes
from sleipnir.scheduler.batch.results.conditions import LineExpression, Result
from sleipnir.scheduler.batch.results.lines import ResultLines
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.cli.progress import StepDisplay
from sleipnir.scheduler.cli.run_result import print_json
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.views.batches import STATUSES, batch_page
from sleipnir.scheduler.views.text.formatting import amount, usd
from sleipnir.scheduler.views.text.tables import batch_nodes as batch_table
from sleipnir.scheduler.views.text.terminal_output import printable

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.batches import BatchDocument, BatchStatusDocument

_READ_AT_ONCE = 100
# Runs between two displays of how many have been read.
_SHOWN_EVERY = 1_000


@dataclass(frozen=True, slots=True)
class WantedResults:
    """What to show of a batch."""

    batch: str
    where: Expression | None
    count: Expression | None
    with_state: Sequence[str]


def print_status(client: Client, options: Options, wanted: WantedResults) -> int:
    """Print the counts of a batch's runs, or its results that fulfil an expression."""
    document = batch_page(client.queries, wanted.batch)
    if document is None:
        raise click.UsageError(f"no batch '{wanted.batch}'; `sleipnir batches` lists batches")
    if wanted.where is not None or wanted.count is not None:
        _Results(client, options, wanted).print()
    else:
        found = read_nodes(client, options, wanted.batch)
        if options.json:
            status: BatchStatusDocument = {
                **document,
                "nodes": found.nodes(),
                "routes": found.routes(),
            }
            print_json(status)
        else:
            lines = batch_table.lines_of(found.nodes(), found.routes())
            click.echo("\n".join((_in_words(document), *lines)))
    return ExitCode.SUCCEEDED


def read_nodes(client: Client, options: Options, batch: str) -> BatchNodes:
    """Add up what the nodes of a batch's runs did, while saying how far that is."""
    with StepDisplay(options, batch) as display:
        return batch_nodes(client, batch, lambda read: _show_reading(display, "runs read", read))


def _show_reading(display: StepDisplay, what: str, count: int) -> None:
    if count % _SHOWN_EVERY == 0:
        display.update(what, count)


def _in_words(document: BatchDocument) -> str:
    counts = {status: document[status] for status in STATUSES if document[status]}
    parts = [f"{count:,} {status}" for status, count in counts.items()]
    lines = document["lines"]
    of = "" if lines is None or lines == document["runs"] else f" of {lines:,} lines"
    if document["removed"]:
        parts.append(f"{document['removed']:,} removed")
    used = document["usage"]
    spent = f"; {amount(used['total_tokens'])} tokens, {usd(used['cost_usd'])}"
    return f"{document['batch']}: {document['runs']:,} runs{of}: {', '.join(parts)}" + (
        spent if used["total_tokens"] else ""
    )


class _Results:
    """The results of a batch, of which some are printed, or values counted."""

    def __init__(self, client: Client, options: Options, wanted: WantedResults) -> None:
        self._options = options
        self._wanted = wanted
        self._lines = ResultLines(client, with_state=wanted.with_state)

    def print(self) -> None:
        """Print those that fulfil `where` in input order, or how many have each value of `count`.

        Raises:
            SubmissionRefused: an expression fails for a line; nothing is printed.
        """
        chosen, count = self._chosen(), self._wanted.count
        if count is not None:
            self._print_counts(LineExpression("--count", count).values(chosen))
            return
        # Read again, as all results together may be large.
        places = sorted((result["line"] or inf, result["run_id"]) for result in chosen)
        for start in range(0, len(places), _READ_AT_ONCE):
            some = [run_id for _, run_id in places[start : start + _READ_AT_ONCE]]
            for _, result in self._lines.of_runs(some):
                print_json(result)

    def _chosen(self) -> Iterator[Result]:
        where, results = self._wanted.where, self._all()
        return results if where is None else LineExpression("--where", where).fulfilled(results)

    def _all(self) -> Iterator[Result]:
        batch = self._wanted.batch
        with StepDisplay(self._options, batch) as display:
            for number, (_, result) in enumerate(self._lines.of_batch(batch), 1):
                _show_reading(display, "results read", number)
                yield result

    def _print_counts(self, values: Iterator[Any]) -> None:
        # Equal values have equal texts, as whole numbers are integers.
        counts = Counter(map(encode, values))
        for text, count in sorted(counts.items(), key=lambda each: (-each[1], each[0])):
            value = json.loads(text)
            if self._options.json:
                print_json({"value": value, "count": count})
            else:
                click.echo(f"{count} {printable(value if isinstance(value, str) else text)}")
