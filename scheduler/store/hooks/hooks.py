"""Hooks: what they are, and telling transitions whom to tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.hooks.model import Hook
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.store.hooks.records import hook_of, hook_text, index_text
from sleipnir.scheduler.store.keys import HOOK_FIGURES, HOOKS, attempts_key, hooks_key
from sleipnir.scheduler.store.transitions import Transitions

_FAILING_SINCE = "failing_since"
_FIGURES = ("delivered", "failed", "given_up", _FAILING_SINCE)


@dataclass(frozen=True, slots=True)
class HookFigures:
    """What has become of a hook's deliveries so far."""

    delivered: int = 0
    failed: int = 0  # attempts
    given_up: int = 0
    failing_since_ms: int | None = None  # nothing was delivered since; None: the last was


class Hooks:
    """All hooks. There are few, so that they are read at once."""

    def __init__(self, store: Transitions) -> None:
        self._store = store
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = store.client

    def put(self, hook: Hook, before: Hook | None) -> None:
        """Make a hook, or replace what was read of it.

        Raises:
            NameTaken: there is one of that name.
            DefinitionChanged: it is another one meanwhile.
        """
        known = "" if before is None else hook_text(before)
        self._store.transition("put_definition")(HOOKS, hook.name, known, hook_text(hook))
        self.announce()

    def remove(self, name: str) -> bool:
        """Remove a hook, and what is known of it; return False if there was none."""
        removed = self._redis.hdel(HOOKS, name)
        self._redis.delete(attempts_key(name))
        self._redis.hdel(HOOK_FIGURES, *(f"{name} {each}" for each in _FIGURES))
        self.announce()
        return bool(removed)

    def read(self, name: str) -> Hook | None:
        """Return a hook; None if there is none of that name."""
        text = self._redis.hget(HOOKS, name)
        return None if text is None else hook_of(name, text)

    def read_all(self) -> dict[str, Hook]:
        """Return all hooks by name, sorted."""
        stored = self._redis.hgetall(HOOKS)
        return {name: hook_of(name, stored[name]) for name in sorted(stored)}

    def announce(self) -> None:
        """Let the transitions of all partitions tell the hooks that there are now."""
        text = index_text(self.read_all().values())
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                if text:
                    pipe.set(hooks_key(partition), text)
                else:
                    pipe.delete(hooks_key(partition))
            pipe.execute()

    def is_announced(self) -> bool:
        """Return whether all partitions know the hooks; who changed one may have died meanwhile."""
        text = index_text(self.read_all().values())
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.get(hooks_key(partition))
            return all((known or "") == text for known in pipe.execute())

    def record(
        self,
        partition: str,
        event: str,
        event_id: str,
        subject: Mapping[str, Any],
        *,
        hook: str = "",
        facts: Mapping[str, Any] | None = None,
        url: str | None = None,
    ) -> None:
        """Record an event that no other transition causes.

        Args:
            partition: where it waits until it is delivered.
            hook: the only one that is told; "": all that want it.
            facts: what their filters look at: `agent`, `batch`, `labels`.
            url: what the run or batch had named for its own events.
        """
        about = {"labels": {}, **(facts or {})}
        self._store.transition("record_event")(
            partition,
            hook,
            event,
            event_id,
            encode(dict(subject)),
            encode(about),
            url or "",
            clock=self._store.clock.argument(),
        )

    def figures(self) -> dict[str, HookFigures]:
        """Return the figures of all hooks that have any, by name."""
        found: dict[str, dict[str, int]] = {}
        for field, value in self._redis.hgetall(HOOK_FIGURES).items():
            name, _, figure = field.rpartition(" ")
            found.setdefault(name, {})[figure] = int(value)
        return {
            name: HookFigures(
                delivered=values.get("delivered", 0),
                failed=values.get("failed", 0),
                given_up=values.get("given_up", 0),
                failing_since_ms=values.get(_FAILING_SINCE),
            )
            for name, values in found.items()
        }

    def count(self, name: str, figure: str, by: int = 1) -> None:
        """Add to a figure of a hook."""
        self._redis.hincrby(HOOK_FIGURES, f"{name} {figure}", by)

    def forgive(self, name: str) -> None:
        """Forget for how long a hook has failed."""
        self._redis.hdel(HOOK_FIGURES, f"{name} {_FAILING_SINCE}")

    def note_outcome(self, name: str, *, is_delivered: bool, is_own: bool) -> int | None:
        """Count an attempt; return since when there were failures only, ms, None if not.

        Args:
            is_own: it went to the URL of a run, which says nothing of the hook's.
        """
        since = f"{name} {_FAILING_SINCE}"
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hincrby(HOOK_FIGURES, f"{name} {'delivered' if is_delivered else 'failed'}", 1)
            if is_delivered and not is_own:
                pipe.hdel(HOOK_FIGURES, since)
            elif not is_own:
                pipe.hsetnx(HOOK_FIGURES, since, self._store.clock.now_ms())
            pipe.hget(HOOK_FIGURES, since)
            failing_since = pipe.execute()[-1]
        return None if failing_since is None else int(failing_since)
