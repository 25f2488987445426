"""What the spans of a run have in common, read from the store once per run."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from sleipnir.scheduler.process.telemetry import conventions
from sleipnir.scheduler.process.telemetry.identity import Trace, trace_of
from sleipnir.scheduler.process.telemetry.spans import Shared, Value
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.keys import run_key

if TYPE_CHECKING:
    from sleipnir.scheduler.store.transitions import Transitions

_FIELDS = ("agent", "digest", "context", "labels", "batch", "forked_from", "try")
_MOST_KNOWN = 1_024
_CALIBRATED_EVERY_S = 30.0


class RunFacts(NamedTuple):
    """A run, as far as its spans say."""

    agent: str
    digest: str
    root: str  # its root run, "" for itself
    session: str | None  # of the conversation that it belongs to
    user: str
    converses: bool
    stored: tuple[str, str]  # trace, as the run stores it, and its state
    labels: Mapping[str, str]
    batch: str | None
    forked_from: str  # run id, "" if it is no fork
    tries: int

    def trace(self, run_id: str, run_try: int) -> Trace:
        """Return the trace of a try of this run."""
        return trace_of(run_id, run_try, *self.stored)


class Facts:
    """Reads facts of runs, and the clock; used by the exporter's thread only."""

    def __init__(self, store: Transitions) -> None:
        self._store = store
        self._known: OrderedDict[str, RunFacts] = OrderedDict()
        self.common = lru_cache(maxsize=_MOST_KNOWN)(self._common)
        self._offset_ms = 0.0  # of the clock of Redis from `monotonic`
        self._calibrated_at = float("-inf")

    def load(self, run_ids: Iterable[str]) -> None:
        """Read the facts of these runs by one round trip; `of` reads what is missing then."""
        unknown = [run_id for run_id in run_ids if run_id not in self._known]
        if not unknown:
            return
        with suppress(RedisError), self._store.client.pipeline(transaction=False) as pipe:
            for run_id in unknown:
                pipe.hmget(run_key("run", run_id), _FIELDS)
            for run_id, values in zip(unknown, pipe.execute(), strict=True):
                self._learn(run_id, values)

    def of(self, run_id: str, run_try: int = 1) -> RunFacts:
        """Return the facts of a run that has had this try.

        Raises:
            LookupError: nothing is left of it.
        """
        found = self._known.get(run_id)
        if found is None or found.tries < run_try:
            found = self._learn(run_id, self._store.client.hmget(run_key("run", run_id), _FIELDS))
        if found is None:
            raise LookupError(run_id)
        return found

    def _common(self, run_id: str, agent: str, root: str) -> Shared:
        """Return the attributes that all spans of a run have.

        Args:
            agent: the one to be told if nothing is left of the run.
            root: its root run, "" for itself.
        """
        found: dict[str, Value] = {"sleipnir.run_id": run_id, "sleipnir.agent": agent}
        root = root or run_id
        try:
            found["sleipnir.agent"] = self.of(run_id).agent
            of_root = self.of(root)
        except LookupError:
            return *found.items(), (conventions.SESSION_ID, root)
        found[conventions.SESSION_ID] = of_root.session or of_root.batch or root
        if of_root.user:
            found[conventions.USER_ID] = of_root.user
        for name, value in of_root.labels.items():
            found[f"sleipnir.label.{name}"] = value
        return tuple(found.items())

    def at_ms(self, instants: tuple[float, float]) -> tuple[float, float]:
        """Return two instants of this process, in s, on the clock of Redis, in ms."""
        now = monotonic()
        if now - self._calibrated_at > _CALIBRATED_EVERY_S:
            self._offset_ms = self._store.clock.now_ms() - now * 1000
            self._calibrated_at = now
        began, ended = instants
        return began * 1000 + self._offset_ms, ended * 1000 + self._offset_ms

    def _learn(self, run_id: str, values: Any) -> RunFacts | None:
        """Keep the facts that fields of a run tell; none if nothing is left of it."""
        agent, digest, context, labels, batch, forked_from, tries = values
        if context is None:
            return None
        # Not all of a `RunContext`, which takes four times as long.
        stored = json.loads(context)
        found = self._known[run_id] = RunFacts(
            agent or "",
            digest or "",
            stored.get("root", ""),
            stored.get("session"),
            stored.get("user") or stored.get("submitter", ""),
            stored.get("converses", False),
            (stored.get("trace", ""), stored.get("tracestate", "")),
            json.loads(labels or "{}"),
            batch,
            (forked_from or "").partition(" ")[0],
            int(tries or 1),
        )
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return found
