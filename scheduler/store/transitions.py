"""Calls of transitions: the base of the run store and of the rate limiter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import redis

from sleipnir.graphs.document.queues import DEFAULT_QUEUE
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.runs.failures import KEPT_FAILURES
from sleipnir.scheduler.runs.ids import partition_of
from sleipnir.scheduler.runs.spending import MOST_COMBINATIONS, OTHERS, spent_field
from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.store.connection import OwnConnection, is_private
from sleipnir.scheduler.store.dispatch import Dispatcher
from sleipnir.scheduler.store.keys import LANE_SEPARATOR, QUEUE, TURN_MARK
from sleipnir.scheduler.store.scripts import Constant, Transition, Woken
from sleipnir.scheduler.store.telemetry.run_spans import RunSpans

with lazy_imports():
    from sleipnir.scheduler.runs import events

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.events import Event

# How long a message may be on its way before the scheduler checks for it.
REPUBLISH_MS = 5_000
# The least that holds an event's essential fields.
_SMALLEST_EVENT_BYTES = 512


@dataclass(frozen=True, slots=True)
class Queued:
    """A command that is sent together with others."""

    words: tuple[str | bytes | int, ...]
    alone: Callable[[], Any]  # sends it alone


class Scripts:
    """Transitions on one Redis by name, each loaded once, and the clock they use.

    Args:
        constants: passed to all scripts besides their arguments.
        published: receives the visits that a transition made ready.
    """

    def __init__(
        self,
        client: redis.Redis,
        clock: RedisClock,
        constants: Mapping[str, Constant] | None = None,
        published: Callable[[Sequence[Woken]], None] = lambda _woken: None,
    ) -> None:
        self.client = client
        self.clock = clock
        self.constants = constants or {}
        self._published = published
        self._transitions: dict[str, Transition] = {}

    def transition(self, name: str) -> Transition:
        """Return a transition by its file's name."""
        found = self._transitions.get(name)
        if found is None:
            found = Transition(name, self.client, self.constants, self._published)
            self._transitions[name] = found
        return found


class Transitions(Scripts):
    """Transitions of runs, each one Lua call on one partition.

    Args:
        clock: returns the time in ms, for tests; by default Redis tells it.
    """

    def __init__(
        self,
        client: redis.Redis,
        settings: Settings,
        dispatcher: Dispatcher,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.run_spans = RunSpans.of_process(self)
        publish = dispatcher.publish
        self.published: Callable[[Sequence[Woken]], None] = (
            publish if self.run_spans is None else self.run_spans.before(publish)
        )
        constants: dict[str, Constant] = {
            "queue": QUEUE,
            "default_queue": DEFAULT_QUEUE,
            "lane_separator": LANE_SEPARATOR,
            "turn_mark": TURN_MARK,
            "envelope": dispatcher.envelope,
            "republish_ms": REPUBLISH_MS,
            "retention_ms": int(settings.retention_s * 1000),
            "archive_after_ms": int(settings.archive_after_s * 1000) if settings.archive else -1,
            "spend_retention_ms": int(settings.spend_retention_s * 1000),
            "most_hourly_sums": MOST_COMBINATIONS - 1,
            "spent_for_others": spent_field(OTHERS),
            "narration_limit": settings.narration_limit,
            "history_limit": settings.history_limit_bytes,
            "kept_failures": KEPT_FAILURES,
            "tells_ends": int(self.run_spans is not None),
        }
        super().__init__(client, RedisClock(client, clock), constants, self.published)
        self.settings = settings
        self.dispatcher = dispatcher
        self._own = OwnConnection(client)

    @property
    def has_queues(self) -> bool:
        """Whether workers may serve different queues; those of a private Redis serve all."""
        return not is_private(self.settings.redis_url or "")

    @property
    def lease_ms(self) -> int:
        """How long a lease lasts from when it was taken or renewed."""
        return int(self.settings.lease_s * 1000)

    def call(self, name: str, run_id: str, *arguments: bytes | str | int) -> Any:
        """Carry out one transition of a run; return a record of the values of its `OK` line.

        Raises:
            TransitionRefused: as the script's `ERR` lines say.
            TransitionBroken: the script failed; nothing was written.
        """
        return self.transition(name)(
            partition_of(run_id),
            run_id,
            *arguments,
            clock=self.clock.argument(),
            client=self._own.client,
        )

    def send(self, *words: str | bytes | int) -> Any:
        """Send one plain command."""
        return self._own.client.execute_command(*words)  # type: ignore[no-untyped-call] # of redis-py

    def send_all(self, commands: Sequence[Queued]) -> None:
        """Send commands that need not be atomic in one round trip."""
        if len(commands) == 1:
            commands[0].alone()
            return
        with self.client.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command.words)  # type: ignore[no-untyped-call] # of redis-py
            pipe.execute()

    def call_after(
        self, commands: Sequence[Queued], name: str, run_id: str, *arguments: bytes | str | int
    ) -> Any:
        """Call as `call` does, after commands that need not be atomic with it, in one round trip.

        A command that fails is sent again alone, and so is the transition.
        """
        if not commands:
            return self.call(name, run_id, *arguments)
        last = self.queued(name, run_id, *arguments)
        with self.client.pipeline(transaction=False) as pipe:
            for command in (*commands, last):
                pipe.execute_command(*command.words)  # type: ignore[no-untyped-call] # of redis-py
            answers = pipe.execute(raise_on_error=False)
        for command, answer in zip(commands, answers, strict=False):
            if isinstance(answer, Exception):
                command.alone()
        if isinstance(answers[-1], Exception):
            return last.alone()
        return self.transition(name).result(answers[-1])

    def queued(self, name: str, run_id: str, *arguments: bytes | str | int) -> Queued:
        """Return a transition as a command to send together with another one."""
        transition, clock = self.transition(name), self.clock.argument()
        encoded = transition.encoded((run_id, *arguments), clock)
        return Queued(
            ("EVALSHA", transition.sha, 1, partition_of(run_id), *encoded),
            partial(self.call, name, run_id, *arguments),
        )

    def event(self, event: Event | None) -> str:
        """Return an event as transitions take it; empty for none.

        An event is cut to an equal share of the narration's byte limit, so nobody has to count.
        """
        if event is None:
            return ""
        share = self.settings.narration_limit_bytes // self.settings.narration_limit
        return events.to_json(event, max(share, _SMALLEST_EVENT_BYTES))
