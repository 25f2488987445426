"""The part of the Python client that follows runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from sleipnir.graphs.document.queues import DEFAULT_QUEUE, queues_of_nodes
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.errors import StillRunning
from sleipnir.scheduler.runs.model import Question, Run, RunRow
from sleipnir.scheduler.store.keys import machine_queue, named_queue
from sleipnir.scheduler.store.limit_queries import LimitQueries
from sleipnir.scheduler.store.machines import Machines
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.run_store import RunStore

with lazy_imports():
    from sleipnir.scheduler.client.limits import report as limit_report
    from sleipnir.scheduler.runs import answers

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.events import NarrationEntry


def waits_for_queue(queue: str) -> str:
    """Return what is said of a run that waits in a queue that nobody serves."""
    return f"waits for a worker of queue '{queue}'; none is running"


# How long one blocking read of news waits.
_LOOK_S = 5.0


class HasStore(Protocol):
    """What this part needs of the rest of a client."""

    store: RunStore
    queries: RunQueries

    def deserted_machines(self, runs: Iterable[Run | RunRow]) -> set[str]: ...

    def unserved_queues(self, runs: Iterable[Run | RunRow]) -> dict[str, str]: ...

    def open_questions(self, run_id: str) -> list[Question]: ...


class Following:
    """Reads and follows runs."""

    def run(self: HasStore, run_id: str) -> Run:
        """Return a run as it is now.

        Raises:
            RunNotFound: there is none of that id.
        """
        return self.queries.run(run_id)

    def state(self: HasStore, run_id: str, step: int | None = None) -> dict[str, Any]:
        """Return the state as last committed, or after a step; step 0 is before the first node.

        Raises:
            RunNotFound: there is none of that id.
            IndexError: that step was not committed, or was folded into a later one.
        """
        self.queries.run(run_id)
        if step is not None:
            return dict(self.queries.moment(run_id, step).state)
        return self.queries.state(run_id)

    def events(self: HasStore, run_id: str, after: str = "0") -> Iterator[NarrationEntry]:
        """Yield the events of a run until its end, waiting for new ones.

        Args:
            after: the `event_id` of the last entry already seen.

        Raises:
            RunNotFound: there is none of that id, or no more.
            BadCursor: `after` is not the id of an event.
        """
        is_open = False
        while True:
            news = self.queries.news(run_id, after, int(_LOOK_S * 1000), is_open=is_open)
            yield from news.entries
            if news.ended is not None:
                return
            is_open = news.is_open
            after = news.entries[-1].event_id if news.entries else after

    def wait(self: HasStore, run_id: str, timeout_s: float | None = None) -> Run:
        """Wait until the run has ended; waiting for a person does not count as an end.

        Raises:
            RunNotFound: there is none of that id, or no more.
            StillRunning: it had not ended within `timeout_s`; it continues.
        """
        end = None if timeout_s is None else monotonic() + timeout_s
        newest = self.queries.newest_entry(run_id)
        after = "0" if newest is None else newest.event_id
        is_open = False
        while True:
            left_s = _LOOK_S if end is None else min(_LOOK_S, end - monotonic())
            news = self.queries.news(run_id, after, max(1, int(left_s * 1000)), is_open=is_open)
            if news.ended is not None:
                return news.ended
            is_open = news.is_open
            if end is not None and monotonic() > end:
                raise StillRunning(run_id, timeout_s or 0.0)
            after = news.entries[-1].event_id if news.entries else after

    def open_question(
        self: HasStore, run_id: str, node: str | None = None, *, question_id: str | None = None
    ) -> Question:
        """Return the open question of a run, or of its child runs if it has none itself.

        Args:
            question_id: the id of the question, of the run or of any run below it.

        Raises:
            RunNotFound: there is no run of that id.
            AnswerRefused: there is none, or several and `node` does not single one out.
        """
        if question_id is not None:
            asking = answers.run_of_question(question_id)
            return answers.with_id(run_id, self.queries.questions(asking), question_id)
        question = answers.chosen(run_id, self.open_questions(run_id), node)
        if question is None:
            raise answers.none_open(self.queries.run(run_id), node)
        return question

    def open_questions(self: HasStore, run_id: str) -> list[Question]:
        """Return a run's open questions, or else those of its child runs at any depth."""
        return self.queries.questions(run_id) or self.queries.questions_of_tree(run_id)

    def deserted_machines(self: HasStore, runs: Iterable[Run | RunRow]) -> set[str]:
        """Return machines that some of the runs are pinned to, but that have no worker now."""
        pinned = (run.machine for run in runs if not run.is_final)
        return Machines(self.store.client).without_worker(pinned)

    def unserved_queues(self: HasStore, runs: Iterable[Run | RunRow]) -> dict[str, str]:
        """Return by run id the queue that one of its nodes waits in, but that no worker serves.

        Only of runs whose nodes name queues. A pinned run needs a worker of its machine.
        """
        named = {run.run_id: run for run in runs if run.queues and not run.is_final}
        queued = {
            run.run_id: {
                name: machine_queue(run.machine, name) if run.machine else named_queue(name)
                for name in {DEFAULT_QUEUE, *run.queues.values()}
            }
            for run in named.values()
        }
        wanted = {queue for places in queued.values() for queue in places.values()}
        unserved = Machines(self.store.client).unserved(wanted)
        doubtful = [run for run in named.values() if unserved & {*queued[run.run_id].values()}]
        found = {}
        for run, nodes in zip(doubtful, self.queries.ready_nodes(doubtful), strict=True):
            for name in queues_of_nodes(run.queues, nodes):
                if queued[run.run_id][name] in unserved:
                    found[run.run_id] = name
        return found

    def waits_for(self: HasStore, runs: Sequence[Run | RunRow]) -> dict[str, str]:
        """Return by run id what a person has to do for it to continue."""
        open_runs = [run for run in runs if not run.is_final]
        deserted = self.deserted_machines(open_runs)
        without_worker = {
            run.run_id: f"no worker on {run.machine}"
            for run in open_runs
            if run.machine in deserted
        }
        if not open_runs:
            return {}
        for run_id, queue in self.unserved_queues(open_runs).items():
            without_worker.setdefault(run_id, waits_for_queue(queue))
        limits = LimitQueries(self.store.client, self.store.clock)
        return without_worker | limit_report.held_up(limits, [run.run_id for run in open_runs])
