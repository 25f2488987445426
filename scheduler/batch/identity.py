"""Derives the names of batches and the ids of their runs, so that a repeated command finds them."""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePath

from sleipnir.graphs.document.finding import printable

# More than any line is retried; a run id that matches no attempt is of another batch.
_MOST_ATTEMPTS = 1_000
_LONGEST_STEM = 128  # characters


def name_of_file(agent: str, file: Path) -> str:
    """Return the name of the batch of an agent over a file, whatever the working directory."""
    path = file.absolute()
    # A file name may have line ends, and need not be UTF-8, but a batch's name goes into Redis and
    # onto screens.
    stem = printable(path.stem)[:_LONGEST_STEM]
    return f"{agent}-{stem}-{_digest(agent, str(path))[:8]}"


def name_of_stream(agent: str, content_digest: str) -> str:
    """Return the name of the batch of an agent over the contents of stdin."""
    return f"{agent}-stdin-{_digest(agent, content_digest)[:8]}"


def name_of_upload(agent: str, file: str, content_digest: str) -> str:
    """Return the name of the batch of an agent over a file that somebody has sent."""
    stem = printable(PurePath(file).stem)[:_LONGEST_STEM]
    return f"{agent}-{stem}-{_digest(agent, content_digest)[:8]}"


def run_id_of(batch: str, item: str, attempt: int) -> str:
    """Return the id of an item's n-th run, which makes its submission idempotent."""
    return _digest(batch, item, str(attempt))[:16]


def attempt_of(run_id: str, batch: str, item: str) -> int | None:
    """Return which of an item's attempts a run is; None if it is none of them."""
    attempts = range(1, _MOST_ATTEMPTS)
    return next((n for n in attempts if run_id_of(batch, item, n) == run_id), None)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()
