"""Attaches to a run: shows its narration, and asks its questions and those of its child runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from sleipnir.scheduler.cli.asking.answering import give
from sleipnir.scheduler.cli.connect import lacking_process
from sleipnir.scheduler.cli.narration.narrator import Narrator
from sleipnir.scheduler.cli.prompts import ask, ignore_early
from sleipnir.scheduler.cli.terminal import Withdrawn, show
from sleipnir.scheduler.errors import AnswerRefused
from sleipnir.scheduler.process.periodic import pause
from sleipnir.scheduler.runs.answers import how_to_answer
from sleipnir.scheduler.runs.events import (
    ChildStarted,
    Event,
    NarrationEntry,
    QuestionAsked,
    RunEnded,
    RunRetried,
    TextStreamed,
)
from sleipnir.scheduler.runs.model import Question, Run, Status
from sleipnir.scheduler.store.connection import retry_aloud
from sleipnir.scheduler.views.text.formatting import call_lines
from sleipnir.scheduler.views.text.terminal_output import printable

if TYPE_CHECKING:
    from sleipnir.scheduler.cli.options import Options
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.store.queries import RunQueries

# How long one read of events blocks; after it, the run's status is checked.
_LOOK_MS = 1_000
_AT_ONCE_MS = 1
# Reads without events after which a run that nobody begins needs an explanation.
_LOOKS_IN_VAIN = 3


class Attachment:
    """A command's view of a run, from the run's beginning on.

    Args:
        asks: whether to ask the person at the terminal the run's questions.
        stays: whether to stay attached while the run waits for a person.
        streams: whether to show model output from now on, if the run is streamed.
        narrator: shows the events; None: as `run` does.
        take_early: gets what was typed before a question was on the screen, which is no answer.
    """

    def __init__(
        self,
        client: Client,
        run_id: str,
        options: Options,
        *,
        asks: bool,
        stays: bool,
        streams: bool = False,
        narrator: Narrator | None = None,
        take_early: Callable[[str], None] = ignore_early,
    ) -> None:
        # Runs survive outages of Redis, so watching them should, too.
        told = partial(options.say, "Redis is not available; retrying (Ctrl-C exits)")
        client.store.client.set_retry(retry_aloud(told))
        self._client = client
        self._records = client.queries
        self.run_id = run_id
        self._options = options
        self._asks = asks
        self._stays = stays
        self._take_early = take_early
        # The last event read, of the run and its children.
        self._positions = {run_id: "0"}
        self._over: dict[str, str] = {}  # the same for ended child runs
        # Positions in token streams, which are never shown again.
        self._stream_positions = (
            {run_id: client.queries.end_of_token_stream(run_id)} if streams else {}
        )
        self._narrator = narrator or Narrator(options)
        self._children: dict[str, ChildStarted] = {}  # by run id
        self._asking: set[str] = set()  # runs that may have open questions
        self._explained: set[str] = set()  # questions whose answering was explained

    def skip_what_was_told(self) -> None:
        """Skip all earlier events of the run and its child runs."""
        descendants = [self.run_id]
        while descendants:
            run_id = descendants.pop()
            newest = self._records.newest_entry(run_id)
            positions = self._positions if run_id == self.run_id else self._over
            positions[run_id] = newest.event_id if newest is not None else "0"
            for child in self._records.children(run_id):
                self._children[child.run_id] = ChildStarted("", child.agent, child.run_id)
                descendants.append(child.run_id)

    def follow(self) -> Run:
        """Narrate until the run has ended, or waits while we do not; may be called again."""
        try:
            return self._follow()
        finally:
            self._narrator.end()

    def _follow(self) -> Run:
        looks_in_vain = 0
        while True:
            news = self._news(_LOOK_MS)
            looks_in_vain = 0 if news else looks_in_vain + 1
            if self._tell_all(news):
                break
            if not self._wants_more(looks_in_vain):
                # The run waits, possibly since after that read: more questions may have come.
                self._tell_all(self._news(_AT_ONCE_MS))
                break
        return self._records.run(self.run_id)

    def open_questions(self) -> list[Question]:
        """Return the open questions of the run and its children, oldest first."""
        found = [q for run_id in self._asking for q in self._records.questions(run_id)]
        return sorted(found, key=lambda question: question.asked)

    def _news(self, wait_ms: int) -> list[tuple[str, NarrationEntry]]:
        """Return the events since the last call, in order; new children are read at once."""
        news = fresh = self._records.events_after(self._positions, wait_ms, self._stream_positions)
        while fresh:
            children = {}
            for run_id, entry in fresh:
                read = (
                    self._stream_positions
                    if isinstance(entry.event, TextStreamed)
                    else self._positions
                )
                read[run_id] = entry.event_id
                if isinstance(entry.event, ChildStarted):
                    self._children[entry.event.run_id] = entry.event
                    children[entry.event.run_id] = "0"
            self._positions.update(children)
            fresh = self._records.events_after(children, _AT_ONCE_MS) if children else []
            news = news + fresh
        # Event ids are instants. Of the same millisecond, a child's first one may come before the
        # event that names the child.
        return sorted(news, key=lambda told: [int(part) for part in told[1].event_id.split("-")])

    def _tell_all(self, news: list[tuple[str, NarrationEntry]]) -> bool:
        """Show the events; return whether the run's end was among them."""
        for run_id, entry in news:
            self._tell(run_id, entry.event)
            if (
                isinstance(entry.event, RunEnded)
                and run_id == self.run_id
                and entry.event.ends(self._records.run(run_id))
            ):
                return True
        return False

    def _tell(self, run_id: str, event: Event) -> None:
        if isinstance(event, QuestionAsked):
            self._asking.add(run_id)
        child = self._children.get(run_id)
        if child is not None and isinstance(event, RunEnded):
            self._over[run_id] = self._positions.pop(run_id)
            self._asking.discard(run_id)
        if isinstance(event, RunRetried):
            # Its unsuccessful children may be retried, too.
            self._positions.update(self._over)
            self._over.clear()
        self._narrator.tell(event, child)

    def _wants_more(self, looks_in_vain: int) -> bool:
        """Handle open questions; return whether to keep following."""
        for question in self.open_questions():
            if self._asks:
                self._narrator.end()
                self._ask(question)
            elif self._stays and question.question_id not in self._explained:
                self._explained.add(question.question_id)
                self._narrator.end()
                explain(self._options, question)
        if looks_in_vain == 0 and not self._asking:
            return True
        run = self._records.run(self.run_id)
        if run.status == Status.QUEUED and looks_in_vain == _LOOKS_IN_VAIN:
            self._explain_silence(run)
        if run.is_final:  # its last event was not stored
            return False
        return self._stays or self._asks or run.status != Status.WAITING

    def _ask(self, question: Question) -> None:
        def is_open() -> bool:
            return question in self._records.questions(question.run_id)

        try:
            text = ask(question, is_open, self._take_early)
            give(self._client, question, text)
        except (EOFError, KeyboardInterrupt):
            # Waiting costs nothing: leave it as it is; a later Ctrl-C cancels.
            self._asks = False
            show("\n")
        except Withdrawn:
            self._options.say("the question was already answered or withdrawn")
        except AnswerRefused as refusal:
            self._options.say(str(refusal))

    def _explain_silence(self, run: Run) -> None:
        if self._client.deserted_machines([run]):
            self._options.say(
                f"the run is queued for {run.context.machine}, whose files it needs: "
                "start a worker there with `sleipnir worker`"
            )
        elif lack := lacking_process(self._client, self._options):
            self._options.say(f"the run is queued: {lack}")


def replay(client: Client, run_id: str, options: Options, speed: float) -> Run:
    """Narrate a run's events so far, with the original pauses.

    Args:
        speed: how many times faster than the original.
    """
    before_ms, narrator = None, Narrator(options)
    children: dict[str, ChildStarted] = {}
    for teller, entry in _past_events(client.queries, run_id):
        if before_ms is not None and entry.at > before_ms:
            pause((entry.at - before_ms) / 1000 / speed)
        before_ms = entry.at
        if isinstance(entry.event, ChildStarted):
            children[entry.event.run_id] = entry.event
        narrator.tell(entry.event, children.get(teller))
    narrator.end()
    return client.queries.run(run_id)


def _past_events(records: RunQueries, run_id: str) -> Iterator[tuple[str, NarrationEntry]]:
    """Yield the events of a run and its child runs in order, each with its run id."""
    entries = records.follow(run_id, block=False)
    # All of a child's events follow the one that names it.
    waiting: list[tuple[tuple[int, ...], str, NarrationEntry, Iterator[NarrationEntry]]] = []

    def wait_for_next(teller: str, rest: Iterator[NarrationEntry]) -> None:
        if entry := next(rest, None):
            place = tuple(int(part) for part in entry.event_id.split("-"))
            heappush(waiting, (place, teller, entry, rest))

    wait_for_next(run_id, entries)
    while waiting:
        _, teller, entry, rest = heappop(waiting)
        yield teller, entry
        if isinstance(entry.event, ChildStarted):
            child = entry.event.run_id
            wait_for_next(child, records.follow(child, block=False))
        wait_for_next(teller, rest)


def explain(options: Options, question: Question) -> None:
    """Say what a run waits for, and how to answer."""
    text = printable(question.text).replace("\n", "\n  ")
    options.say(f"run {question.run_id} waits for an answer at '{question.node}': {text}")
    for line in call_lines(question):
        options.say(f"  {line}")
    if question.options:
        choices = ", ".join(" ".join(option.split()) for option in question.options)
        options.say(f"  options: {printable(choices)}")
    if question.default:
        options.say(f"  default: {printable(question.default)}")
    options.say(f"answer it with: {how_to_answer(question)}")
