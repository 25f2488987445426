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
    return prefix_of_session(session) + secrets.token_hex(7)


def partition_of_session(session: str) -> str:
    return partition_of(prefix_of_session(session))


def prefix_of_session(session: str) -> str:
    """Return the first two digits of the ids of a session's runs."""
    return hashlib.sha256(session.encode(errors="surrogatepass")).hexdigest()[:2]


def digits_of_batch(batch: str) -> str:
    """Return two digits that choose a partition for what is kept of a batch as a whole."""
    number = int(hashlib.sha256(batch.encode()).hexdigest()[:2], 16)
    return f"{number % PARTITIONS:02x}"


def new_child_id(parent: str) -> str:
    """Return a random id in the partition of `parent`."""
    return parent[:2] + secrets.token_hex(7)


def partition_of(run_id: str) -> str:
    """Return the hash tag of the run's partition; the first two digits of an id suffice.

    Raises:
        ValueError: if the id does not begin with two hex digits.
    """
    return ALL_PARTITIONS[int(run_id[:2], 16) % PARTITIONS]


class VisitId(str):
    """`<step>/<node>`; for an item of a map `<step>/<map node>/<index>`.

    From the second node of its chain on, an item's visit is
    `<step>/<map node>/<index>/<node>/<number>`: its n-th visit of that node.

    It is a text, since messages and the store have it so, and knows its parts.
    """

    __slots__ = ("_parts",)
    _parts: tuple[int, str, int | None, str | None, int]

    def __new__(cls, text: str) -> VisitId:
        """Parse a text.

        Raises:
            ValueError: it is not the id of a visit.
        """
        visit = super().__new__(cls, text)
        step, node, *rest = text.split("/")
        if not rest:
            visit._parts = int(step), node, None, None, 1
        elif len(rest) == 1:
            visit._parts = int(step), node, int(rest[0]), None, 1
        else:
            visit._parts = int(step), node, int(rest[0]), rest[1], int(rest[2])
        return visit

    @classmethod
    def of(cls, step: int, node: str) -> VisitId:
        """Return the id of a node's visit in a step."""
        return cls(f"{step}/{node}")

    def invocation(self, index: int) -> VisitId:
        """Return the id of one invocation of this map."""
        return VisitId(f"{self}/{index}")

    def later(self, node: str, number: int) -> VisitId:
        """Return the id of the n-th visit of a later node by the item of this invocation."""
        return VisitId(f"{self.step}/{self.node}/{self.item}/{node}/{number}")

    @property
    def step(self) -> int:
        return self._parts[0]

    @property
    def node(self) -> str:
        """Its node; of an invocation, the map."""
        return self._parts[1]

    @property
    def item(self) -> int | None:
        """The index of an invocation's item; None for any other visit."""
        return self._parts[2]

    @property
    def later_node(self) -> str | None:
        """The node of an item's visit from its second node on; None for any other visit."""
        return self._parts[3]

    @property
    def number(self) -> int:
        """Which visit of its node this is for an item, from 1; 1 for any other visit."""
        return self._parts[4]

    @property
    def map_visit(self) -> VisitId | None:
        """The visit of the map that an invocation belongs to; None for any other visit."""
        return None if self.item is None else VisitId.of(self.step, self.node)

    @property
    def place(self) -> str:
        """Its node, or `<map node>/<index>` of an item's visit, at whichever node."""
        return self.node if self.item is None else f"{self.node}/{self.item}"
