"""Names of batches and of their runs: the same command finds its runs again."""

from __future__ import annotations

import hashlib
from pathlib import Path

# No line is retried this often; a run id that fits none of its attempts is of another batch.
_MOST_ATTEMPTS = 1_000


def name_of_file(agent: str, file: Path) -> str:
    """Return the name of the batch that runs an agent over a file, wherever it is started from."""
    path = file.absolute()
    # A name need not be UTF-8; that of a batch goes into Redis and onto screens.
    stem = path.stem.encode(errors="backslashreplace").decode()
    return f"{agent}-{stem}-{_digest(agent, str(path))[:8]}"


def name_of_stream(agent: str, content_digest: str) -> str:
    """Return the name of the batch that runs an agent over what came in on stdin."""
    return f"{agent}-stdin-{_digest(agent, content_digest)[:8]}"


def run_id_of(batch: str, item: str, attempt: int) -> str:
    """Return the id of an item's n-th run: submitting it twice changes nothing."""
    return _digest(batch, item, str(attempt))[:16]


def is_run_of(run_id: str, batch: str, item: str) -> bool:
    """Return whether a run is one of an item's attempts."""
    attempts = (run_id_of(batch, item, attempt) for attempt in range(1, _MOST_ATTEMPTS))
    return run_id in attempts


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()
