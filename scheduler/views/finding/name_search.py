"""Finds things by name: agents, batches and their items, labels, limits, and runs by their id.

All of it is read from indexes; texts of runs are searched by lists of runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Final

from sleipnir.records import dataclass
from sleipnir.scheduler.errors import AmbiguousRun, RunNotFound
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views.agents import known_agents
from sleipnir.scheduler.views.limits import limits_document

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types.engine import FoundDocument

MOST_FOUND: Final = 20
_MOST_OF_KIND: Final = 6
_MOST_RUNS: Final = 5
# Names that were read so long ago are read again.
_GOOD_S: Final = 10.0
# Of so many of the newest runs and batches, names are known.
_RECENT: Final = 200
# Batches, the newest ones, in which an item is looked for.
_BATCHES_OF_ITEMS: Final = 50
_ID_PREFIX: Final = re.compile("[0-9a-f]{4,16}")


@dataclass(frozen=True, slots=True)
class _Names:
    """What there is, the newest first."""

    agents: Sequence[str]
    batches: Sequence[str]
    labels: Sequence[str]  # NAME=VALUE
    limits: Sequence[str]


class NameSearch:
    """Finds things by a part of their name. Concurrent reads do no harm.

    Args:
        run_of: returns the id of an item's run, given its batch, the item and the attempt.
    """

    def __init__(self, client: Client, run_of: Callable[[str, str, int], str]) -> None:
        self._client = client
        self._run_of = run_of
        self._kept: tuple[float, _Names] | None = None

    def find(self, text: str) -> list[FoundDocument]:
        """Return what a text may mean, the likeliest of each kind first."""
        text = text.strip()
        if not text:
            return []
        names = self._names()
        found = [
            *self._runs(text.lower()),
            *_of_kind("agent", names.agents, text),
            *_of_kind("batch", names.batches, text),
            *self._items(text, names.batches[:_BATCHES_OF_ITEMS]),
            *_of_kind("label", names.labels, text),
            *_of_kind("limit", names.limits, text),
        ]
        return found[:MOST_FOUND]

    def _names(self) -> _Names:
        if self._kept is None or monotonic() - self._kept[0] >= _GOOD_S:
            self._kept = (monotonic(), _names_of(self._client))
        return self._kept[1]

    def _runs(self, text: str) -> Iterator[FoundDocument]:
        """Yield the runs whose ids begin with a text."""
        if not _ID_PREFIX.fullmatch(text):
            return
        queries = self._client.queries
        try:
            matches: Sequence[str] = [queries.resolve(text)]
        except RunNotFound:
            return
        except AmbiguousRun as error:
            matches = error.matches
        yield from self._stored("run", {run_id: run_id for run_id in matches[:_MOST_RUNS]})

    def _items(self, text: str, batches: Sequence[str]) -> Iterator[FoundDocument]:
        """Yield the first runs of the items of that name."""
        names = {self._run_of(batch, text, 1): f"{batch} / {text}" for batch in batches}
        yield from self._stored("item", names)

    def _stored(self, kind: str, names: Mapping[str, str]) -> Iterator[FoundDocument]:
        """Yield those of some runs, given with their names, that are stored."""
        rows = self._client.queries.rows(list(names))
        for run in filter(None, rows):
            about = f"{run.agent}, {run.status}"
            yield {"kind": kind, "name": names[run.run_id], "about": about, "run_id": run.run_id}


def _names_of(client: Client) -> _Names:
    recent = client.queries.list_runs(RunFilter(), _RECENT).entries
    labels = [f"{name}={value}" for run in recent for name, value in run.labels.items()]
    limits = limits_document(client)
    limited = [each["name"] for each in (*limits["limits"], *limits["pauses"])]
    return _Names(
        agents=sorted(known_agents(client)),
        batches=[row.name for row in client.queries.list_batches(_RECENT).entries],
        labels=list(dict.fromkeys(labels)),
        limits=list(dict.fromkeys(limited)),
    )


def _of_kind(kind: str, names: Iterable[str], text: str) -> list[FoundDocument]:
    """Return the names that contain a text; those that begin with it, or a word with it, first."""
    wanted = text.lower()
    ranked = [(rank, name) for name in names if (rank := _rank(name.lower(), wanted)) is not None]
    ranked.sort(key=lambda each: each[0])
    return [
        {"kind": kind, "name": name, "about": None, "run_id": None}
        for _, name in ranked[:_MOST_OF_KIND]
    ]


def _rank(name: str, wanted: str) -> int | None:
    at = name.find(wanted)
    if at < 0:
        return None
    if at == 0:
        return 0 if name == wanted else 1
    return 2 if not name[at - 1].isalnum() else 3
