"""The runs that a batch command has submitted: on disk before long, and not all of them yet."""

from __future__ import annotations

from time import monotonic

from sleipnir.scheduler.client import Client

# Syncing submitted runs to disk takes about as long for one run as for many.
_KEEP_EVERY_S = 1.0
# For how long a batch whose command has died does not count as finished.
_HOLD_S = 15.0


class SubmittedRuns:
    """Has runs synced to disk, and the batch not count as finished while more may follow."""

    def __init__(self, client: Client, batch: str) -> None:
        self._client = client
        self._ends = client.store.batch_ends
        self._batch = batch
        self._unkept: list[str] = []  # they may not be on disk yet
        self._is_held = False
        self._keep_at = 0.0

    def begin(self) -> None:
        """Begin to submit."""
        self._is_held = True
        self._ends.hold(self._batch, _HOLD_S)

    def add(self, run_id: str) -> None:
        """Note a run that was submitted or retried."""
        self._unkept.append(run_id)

    def keep_if_due(self) -> None:
        """Have the runs synced to disk, unless that was done a moment ago.

        Raises:
            NotKept: some may be lost.
        """
        if monotonic() > self._keep_at:
            self._keep()

    def end(self) -> None:
        """Have the last runs synced to disk: no more follow.

        Raises:
            NotKept: some may be lost.
        """
        self._keep()
        if self._is_held:
            self._ends.release(self._batch)

    def _keep(self) -> None:
        self._client.keep(self._unkept)
        self._unkept = []
        if self._is_held:
            self._ends.hold(self._batch, _HOLD_S)
        self._keep_at = monotonic() + _KEEP_EVERY_S
