"""Drives a batch: keeps a window of runs going, and learns of their ends.

Nothing here has to be durable: run ids follow from batch, line and attempt, so a restarted command
finds the state of every line in Redis.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic

from sleipnir.scheduler.batch.attempts import last_attempts
from sleipnir.scheduler.batch.budget import BatchBudget
from sleipnir.scheduler.batch.files import store_files
from sleipnir.scheduler.batch.finished import FinishedLine, InInputOrder
from sleipnir.scheduler.batch.identity import run_id_of
from sleipnir.scheduler.batch.ledger import Item, Ledger
from sleipnir.scheduler.batch.limit_wait import limit_wait
from sleipnir.scheduler.batch.line_states import LineStates
from sleipnir.scheduler.batch.lines import request_of
from sleipnir.scheduler.batch.options import BatchOptions, Progress
from sleipnir.scheduler.batch.reported import Outcome, outcome_of
from sleipnir.scheduler.batch.retries import Retries
from sleipnir.scheduler.batch.submitted import SubmittedRuns
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.errors import BudgetUsedUp
from sleipnir.scheduler.runs.model import Run, Status
from sleipnir.scheduler.store.queries.narration import CompletionFeed
from sleipnir.scheduler.store.rate_limiter import RateLimiter

_WAIT_S = 0.5
# The longest delay after a lost publication, and until a run that waits for a person is noticed.
_POLL_EVERY_S = 2.0
# Polling many waiting runs may take at most this share of the time.
_POLLING_SHARE = 0.1


class Batch:
    """The runs of an agent for the lines of a ledger.

    Args:
        on_progress: called several times a second.
    """

    def __init__(
        self,
        client: Client,
        agent: PreparedAgent,
        ledger: Ledger,
        options: BatchOptions,
        *,
        on_progress: Callable[[Progress], None] = lambda _progress: None,
    ) -> None:
        self._client = client
        self._agent = agent
        self._ledger = ledger
        self._options = options
        self._on_progress = on_progress
        self.progress = Progress(total=len(ledger))
        self._store_files = partial(store_files, client.store, options.name, options.files)
        self._reconciled = 0  # number of the last line whose runs were looked up
        self._in_order = InInputOrder(ledger, client.queries)
        self._ready: deque[Callable[[], None]] = deque()  # each starts or continues a run
        self._retries = Retries(client, agent, self.progress, options.budget_usd)
        self._lines = LineStates(
            ledger, self.progress, client.queries, self._note_end, ordered=options.ordered
        )
        self._poll_at = 0.0
        self._submitted = SubmittedRuns(client, options.name)
        limiter = RateLimiter(
            client.store.client, client.store.clock, kept_s=client.store.settings.retention_s
        )
        self._limits = limiter.queries
        self._budget = BatchBudget(client.store, limiter, client.queries, options)

    # ---- for callers

    def results(self) -> Iterator[FinishedLine]:
        """Run all lines; yield each as it finishes, including those of earlier starts.

        Ends when every line has finished, waits for a person, or is held back by the budget.
        Lines of which the ledger has the newest result as reported are not yielded again.
        """
        if not self._options.ordered:
            yield from self._as_they_finish()
            return
        for _ in self._as_they_finish():
            yield from self._in_order.ready()
        yield from self._in_order.leftovers()

    def submit_all(self) -> None:
        """Submit every line that has no run yet, without waiting for any.

        Raises:
            NotKept: some runs may be lost.
        """
        self._announce()
        self._budget.paces = False  # calls are still refused beyond it
        for _ in self._start_more():
            pass
        self._submitted.end()

    # ---- the loop

    def _as_they_finish(self) -> Iterator[FinishedLine]:
        self._announce()
        with self._client.queries.completions(self._options.name) as completions:
            while True:
                yield from self._start_more()
                if self.progress.in_flight == 0:
                    # The rest waits for people; one may just have answered.
                    yield from self._poll()
                    if self.progress.in_flight == 0 and not self._ready:
                        yield from self._retried_by_others()
                        self._submitted.end()
                        return
                yield from self._follow(completions)

    def _follow(self, completions: CompletionFeed) -> Iterator[FinishedLine]:
        self._on_progress(self.progress)
        self._submitted.keep_if_due()
        ended = completions.wait(_WAIT_S)
        # A run whose result was reported may have been retried by somebody else.
        items = [item for run_id in dict.fromkeys(ended) if (item := self._ledger.of_run(run_id))]
        yield from self._lines.finish(items)
        if monotonic() > self._poll_at:
            yield from self._poll()

    # ---- starting runs

    def _announce(self) -> None:
        """Record the batch's agent and size for lists of batches."""
        if len(self._ledger):
            lines = self._options.lines or len(self._ledger)
            self._submitted.begin()
            self._client.store.batches.announce(self._options.name, self._agent.name, lines)
            self._budget.begin()

    def _start_more(self) -> Iterator[FinishedLine]:
        """Submit while there is room; yield lines found finished meanwhile."""
        while self.progress.in_flight < self._options.max_in_flight:
            self._submitted.keep_if_due()
            if self._ready:
                if not self._may_start():
                    return
                start = self._ready.popleft()
                if not self.progress.over_budget:
                    start()
                yield from self._lines.finish(self._retries.take_refused())
            elif page := self._ledger.page("todo", self._reconciled):
                self._reconciled = page[-1].number
                yield from self._reconcile(page)
                self._on_progress(self.progress)
            else:
                return

    def _may_start(self) -> bool:
        """Return whether to go on with lines that are ready; over budget, to leave them out."""
        if self.progress.over_budget or self._budget.has_room(self.progress):
            return True
        # Once nothing runs, nothing of the budget will be left over.
        self.progress.over_budget = self.progress.in_flight == 0
        if self.progress.over_budget:
            self._budget.tell_used_up()
        return self.progress.over_budget

    def _submit(self, item: Item, attempt: int) -> None:
        self._store_files(item.content)
        run_id = run_id_of(self._options.name, item.item, attempt)
        request = replace(
            request_of(item.content, self._options.defaults),
            run_id=run_id,
            batch=self._options.name,
            batch_budget_usd=self._options.budget_usd,
            item=item.item,
            line=item.number,
        )
        try:
            self._options.submit(self._client, self._agent, request)
        except BudgetUsedUp:
            self.progress.over_budget = True
            return
        self._started(item, run_id)

    def _retry(self, item: Item, run_id: str) -> None:
        self._store_files(item.content)
        if self._retries.go_on(item, run_id):
            self._started(item, run_id)

    def _note_end(self, run: Run) -> None:
        self._retries.note_end(run)
        self._budget.note_end(run)

    def _started(self, item: Item, run_id: str) -> None:
        self._submitted.add(run_id)
        self._lines.start(item, run_id)

    def _reconcile(self, page: Sequence[Item]) -> Iterator[FinishedLine]:
        """Find the existing runs of lines, and decide what to do with each line."""
        over: list[Item] = []
        attempts = last_attempts(self._client.queries, self._options.name, self._agent.name, page)
        run_ids = [
            run_id_of(self._options.name, item.item, attempt)
            for item, (attempt, _) in zip(page, attempts, strict=True)
        ]
        stopped = self._budget.stopped(run_ids)
        for item, run_id, (attempt, summary) in zip(page, run_ids, attempts, strict=True):
            said = item.reported
            if summary is None and (said is None or self._is_wanted_again(said.outcome)):
                self._ready.append(partial(self._submit, item, attempt))
            elif item.redo and (summary is None or summary.status.is_final):
                self._ready.append(partial(self._start_over, item, run_id, attempt))
            elif summary is not None and summary.batch is None:  # the command died in between
                self._ready.append(partial(self._submit, item, attempt + 1))
            elif summary is None:  # Redis has removed the run by now
                self._lines.keep(item)
            elif not summary.status.is_final:
                self._lines.follow(item, run_id, waits=summary.status == Status.WAITING)
            elif self._is_wanted_again(outcome_of(summary.status, summary.failed_nodes)):
                self._start_again(item, run_id, attempt)
            elif run_id in stopped:
                self._ready.append(partial(self._retry, item, run_id))
            elif said is not None and (said.run_id, said.tries) == (run_id, summary.tries):
                self._lines.keep(item)
            else:
                over.append(replace(item, run_id=run_id))
                self.progress.earlier += 1
        yield from self._lines.finish(over)

    def _is_wanted_again(self, outcome: Outcome) -> bool:
        return outcome in self._options.retried

    def _start_again(self, item: Item, run_id: str, attempt: int) -> None:
        if self._options.from_start:
            self._ready.append(partial(self._start_over, item, run_id, attempt))
        else:
            self._ready.append(partial(self._retry, item, run_id))

    def _start_over(self, item: Item, run_id: str, attempt: int) -> None:
        """Run a line from the start again, in place of its last run."""
        self._client.store.runs.leave_batch(self._options.name, run_id)
        self._submit(item, attempt + 1)

    # ---- following runs

    def _poll(self) -> Iterator[FinishedLine]:
        """Poll every followed run for its status."""
        began_at = monotonic()
        for page in self._ledger.followed():
            summaries = self._client.queries.summaries([item.run_id or "" for item in page])
            over: list[Item] = []
            for item, summary in zip(page, summaries, strict=True):
                if summary is None:
                    self._resubmit(item)
                elif summary.status.is_final:
                    over.append(item)
                else:
                    self._lines.move(item, waits=summary.status == Status.WAITING)
            yield from self._lines.finish(over)
        self.progress.limit_wait = limit_wait(self._limits, self._ledger.of_run)
        took_s = monotonic() - began_at
        self._poll_at = monotonic() + max(_POLL_EVERY_S, took_s / _POLLING_SHARE)

    def _resubmit(self, item: Item) -> None:
        """Submit a line again whose run Redis has lost; its input is still in the ledger."""
        self._lines.drop(item)
        self._ready.append(partial(self._submit, item, 1))

    def _retried_by_others(self) -> Iterator[FinishedLine]:
        """Look at the runs of lines that did not go well once more."""
        for page in self._ledger.not_good():
            summaries = self._client.queries.summaries([item.run_id or "" for item in page])
            changed = [
                item
                for item, summary in zip(page, summaries, strict=True)
                if summary is not None and item.reported and summary.tries != item.reported.tries
            ]
            yield from self._lines.finish(changed)
