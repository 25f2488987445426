"""Transitions of whole runs that have ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.store.record import flat
from sleipnir.scheduler.store.transitions import Transitions

# Most processes neither export nor archive.
with lazy_imports():
    from sleipnir.scheduler.store.archive import reading

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.whole.parts import WholeRun
    from sleipnir.scheduler.store.archive.reading import ReadRun


class WholeRuns:
    """Runs with everything that is stored of them."""

    def __init__(self, store: Transitions) -> None:
        self._store = store

    def read(self, run_ids: Sequence[str]) -> list[ReadRun | None]:
        """Return runs that have ended, in two round trips; None for those that are not there."""
        return reading.read_whole(self._store.client, run_ids)

    def put(self, run: WholeRun, kept_s: float) -> bool:
        """Store a run that ended elsewhere as one of this engine; return False if its id is taken.

        Args:
            kept_s: in how long it is removed.
        """
        fields = flat(run.record)
        answer = self._store.call(
            "import_run",
            run.run_id,
            int(1000 * kept_s),
            len(fields) // 2,
            *fields,
            *reading.words_of(run),
        )
        return bool(answer.created)
