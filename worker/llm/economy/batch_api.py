"""What a provider's batch interface offers, whatever its protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class Polled:
    """The state of a batch at the provider."""

    status: str  # the provider's word
    ended: bool  # all results there will ever be are there
    counts: Mapping[str, int]  # completed, failed, total
    results: tuple[str, ...] = ()  # where they are
    begun: bool = True  # the provider has checked its requests, and keeps them
    refused: str = ""  # why it was refused as a whole


@dataclass(frozen=True, slots=True)
class Listed:
    """A batch in the provider's list."""

    batch_id: str
    group_id: str  # "": the provider does not tell
    requests: int


@dataclass(frozen=True, slots=True)
class ResultLine:
    """What the provider says to a request: one of the three."""

    request_id: str
    completion: Mapping[str, Any] | None = None
    failure: Mapping[str, Any] | None = None  # status, and the body or error
    expired: bool = False  # or cancelled


class BatchApi(Protocol):
    """One provider's batches; all methods raise `ModelCallFailed`."""

    keeps_group: bool  # whether its list tells which group a batch is

    def upload(self, name: str, lines: Path) -> str:
        """Upload requests, a JSON line each; return the file's id, "" if they go with `create`."""

    def create(self, group_id: str, file_id: str, lines: Path) -> str:
        """Create a batch, and return its id."""

    def poll(self, batch_id: str) -> Polled:
        """Return the state of a batch."""

    def results(self, polled_results: str) -> Iterator[ResultLine]:
        """Yield results as they arrive, in any order."""

    def listed(self, since_ms: int) -> Iterator[Listed]:
        """Yield the batches that were created since then."""

    def cancel(self, batch_id: str) -> None:
        """Have the provider stop a batch."""

    def delete(self, batch_id: str, files: tuple[str, ...]) -> None:
        """Delete what the provider keeps of a batch: its files of requests and results."""

    def line_of(self, request_id: str, body: str) -> str:
        """Return a request as a line of the file."""
