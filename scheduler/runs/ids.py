"""Ids of runs and of their visits, and the partitions that run ids choose."""

from __future__ import annotations

from sleipnir.lazy import lazy_imports

# They load OpenSSL, which `--help` does not need.
with lazy_imports():
    import hashlib
    import secrets

# A run and everything that belongs to it are in one partition, so that they change in one
# transition; these are hash tags of Redis.
PARTITIONS = 64
ALL_PARTITIONS = tuple(f"{{p{number:02d}}}" for number in range(PARTITIONS))


def new_run_id() -> str:
    """Return a random run id: 16 hex digits, of which the first two choose the partition."""
    return secrets.token_hex(8)


def new_id_in_session(session: str) -> str:
    """Return a random id in the partition of session `<agent>/<name>`, where all its runs are."""
    return _prefix_of_session(session) + secrets.token_hex(7)


def partition_of_session(session: str) -> str:
    return partition_of(_prefix_of_session(session))


def _prefix_of_session(session: str) -> str:
    return hashlib.sha256(session.encode(errors="surrogatepass")).hexdigest()[:2]


def new_child_id(parent: str) -> str:
    """Return a random id in the partition of `parent`."""
    return parent[:2] + secrets.token_hex(7)


def partition_of(run_id: str) -> str:
    """Return the hash tag of the run's partition; the first two digits of an id suffice.

    Raises:
        ValueError: if the id does not begin with two hex digits.
    """
    return ALL_PARTITIONS[int(run_id[:2], 16) % PARTITIONS]


def visit_id(step: int, node: str, index: int | None = None) -> str:
    """Return `<step>/<node>`; for an invocation of a map, `<step>/<map node>/<index>`."""
    return f"{step}/{node}" if index is None else f"{step}/{node}/{index}"


def invocation_id(map_visit: str, index: int) -> str:
    """Return the visit id of one invocation of a map."""
    return f"{map_visit}/{index}"


def map_visit_of(visit: str) -> str | None:
    """Return the visit of the map that an invocation belongs to; None for any other visit."""
    step, node, index = parse_visit_id(visit)
    return None if index is None else visit_id(step, node)


def place_of(visit: str) -> str:
    """Return a visit id without its step: its node, or `<map node>/<index>` of an invocation."""
    return visit.partition("/")[2]


def parse_visit_id(visit: str) -> tuple[int, str, int | None]:
    """Return the step, node and index of a visit id."""
    step, node, *index = visit.split("/")
    return int(step), node, int(index[0]) if index else None
