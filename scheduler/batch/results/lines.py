"""The result lines of a batch: what is said of a line whose run has ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.state import encode
from sleipnir.scheduler.batch.finished import FinishedLine, read_runs
from sleipnir.scheduler.batch.identity import attempt_of
from sleipnir.scheduler.batch.ledger import Item
from sleipnir.scheduler.batch.lines import input_of
from sleipnir.scheduler.batch.versions import AgentVersions
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.views.documents import ended_document

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types.run import BatchResultDocument

_AT_ONCE = 100


class ResultLines:
    """Makes result lines.

    Args:
        with_input: add the input of the line.
        with_state: keys of the final state to add.
    """

    def __init__(
        self, client: Client, *, with_input: bool = False, with_state: Sequence[str] = ()
    ) -> None:
        self._queries = client.queries
        self._versions = AgentVersions(client.store.bundles)
        self._with_input = with_input
        self._with_state = with_state

    def completed(self, finished: FinishedLine) -> FinishedLine:
        """Return the line with the fields of its result that its run does not have."""
        run, item = finished.run, finished.item
        attempt = 1
        if run.batch is not None and run.line is not None:  # not submitted by other means
            attempt = attempt_of(run.run_id, run.batch, item.item) or 1
        more: dict[str, Any] = {
            "agent_version": self._versions.of(run.digest, run.context.agents),
            "redone": attempt - 1,
        }
        if self._with_input:
            more["input"] = input_of(item.content)
        if self._with_state:
            more["state"] = self._queries.state_values(run.run_id, self._with_state)
        return finished._replace(more=more)

    def of(self, items: Sequence[Item]) -> Iterator[dict[str, Any]]:
        """Yield the results of lines of a ledger whose runs have ended."""
        for finished in read_runs(self._queries, items):
            if finished.run.is_final:
                yield result_document(self.completed(finished))

    def of_runs(self, run_ids: Sequence[str]) -> Iterator[tuple[Run, BatchResultDocument]]:
        """Yield the results of those of the runs that have ended."""
        for run in self._queries.runs(run_ids):
            if run is not None and run.is_final:
                item = Item(run.line or 0, run.item or "", "", "reported", run.run_id)
                finished = FinishedLine(item, run, self._queries.failures(run))
                document: Any = result_document(self.completed(finished))
                document |= {"id": run.item, "line": run.line}
                yield run, document

    def of_batch(self, batch: str) -> Iterator[tuple[Run, BatchResultDocument]]:
        """Yield the results of a batch, the newest run first."""
        for run_ids in self._queries.batch_pages(batch, _AT_ONCE):
            yield from self.of_runs(run_ids)


def result_document(finished: FinishedLine) -> dict[str, Any]:
    """Return the result of a finished run; a line without an id gets one from its content."""
    item, run, failures, more = finished
    return {
        "id": item.item,
        "line": item.number,
        **ended_document(run, failures, run.ended_at or 0),
        **more,
    }


def result_line(finished: FinishedLine) -> str:
    """Return `result_document` as one line, without the line end."""
    return encode(result_document(finished))
