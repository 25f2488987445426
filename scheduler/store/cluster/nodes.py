"""Which node serves which slot, as far as a client knows."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, MovedError, TryAgainError

from sleipnir.records import dataclass
from sleipnir.scheduler.store.cluster.layout import TAGS, key_places
from sleipnir.scheduler.store.cluster.url import Address

SLOTS = 16384
_SCRIPTS = frozenset({"EVAL", "EVALSHA"})
# How often a command is sent to yet another node before it counts as refused.
_REDIRECTIONS = 8


@dataclass(frozen=True, slots=True)
class SlotMap:
    """The primaries of a cluster, each with its ranges of slots."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    addresses: tuple[Address, ...]  # of each range

    @classmethod
    def read(cls, reply: Iterable[Any], asked: Address) -> SlotMap:
        """Read a reply of CLUSTER SLOTS; a node that does not know its host is `asked`'s."""
        ranges = sorted(
            (int(first), int(last), (_text(primary[0]) or asked[0], int(primary[1])))
            for first, last, primary, *_ in reply
        )
        return cls(*(tuple(column) for column in zip(*ranges, strict=True))) if ranges else NOTHING

    def address_of(self, slot: int) -> Address:
        """Return the address of the node that serves a slot.

        Raises:
            ClusterDownError: none does.
        """
        place = bisect_right(self.starts, slot) - 1
        if place < 0 or self.ends[place] < slot:
            raise ClusterDownError(f"no node of the cluster serves slot {slot}")
        return self.addresses[place]

    def with_moved(self, slot: int, address: Address) -> SlotMap:
        """Return a map in which one slot is served elsewhere."""
        ranges = []
        for first, last, there in zip(self.starts, self.ends, self.addresses, strict=True):
            ranges += [
                (low, high, there)
                for low, high in ((first, min(last, slot - 1)), (max(first, slot + 1), last))
                if low <= high
            ]
        columns = zip(*sorted([*ranges, (slot, slot, address)]), strict=True)
        return SlotMap(*(tuple(column) for column in columns))

    def primaries(self) -> list[Address]:
        """Return the nodes that serve slots, in the order of their first ones."""
        return list(dict.fromkeys(self.addresses))

    def missing(self, silent: Collection[Address] = ()) -> list[tuple[int, int]]:
        """Return the ranges of slots that no node serves, or only a silent one."""
        found, following = [], 0
        for first, last, address in zip(self.starts, self.ends, self.addresses, strict=True):
            if address in silent:
                continue
            if first > following:
                found.append((following, first - 1))
            following = last + 1
        return [*found, (following, SLOTS - 1)] if following < SLOTS else found


NOTHING = SlotMap((), (), ())


def slot_of(key: str | bytes) -> int:
    """Return the slot of a key, named as on the cluster."""
    return key_slot(key if isinstance(key, bytes) else key.encode(errors="surrogatepass"))


# The node of keyless commands: one clock stamps what no partition does.
_NAMED = slot_of(TAGS[0])


def slots_in(words: Sequence[Any]) -> dict[int, list[int]]:
    """Return the slots of a command, named as on the cluster, with the places of their keys."""
    found: dict[int, list[int]] = {}
    for place in key_places(words):
        found.setdefault(slot_of(words[place]), []).append(place)
    return found or {_NAMED: []}


def one_slot(words: Sequence[Any]) -> int:
    """Return the slot of a command.

    Raises:
        ValueError: its keys are in several slots, which is a mistake in the store.
    """
    slots = slots_in(words)
    if len(slots) > 1:
        raise ValueError(f"the keys of this command are in several slots: {words[:4]!r}")
    return next(iter(slots))


class Nodes:
    """The nodes of a cluster, one client for each.

    Args:
        seeds: nodes to ask while no other is known.
        make: returns a client of a node.
    """

    def __init__(self, seeds: Sequence[Address], make: Callable[[Address], Any]) -> None:
        self._seeds = tuple(seeds)
        self._make = make
        self._clients: dict[Address, Any] = {}
        self._lock = threading.Lock()
        self.map = NOTHING

    def at(self, address: Address) -> Any:
        """Return the client of a node."""
        with self._lock:
            found = self._clients.get(address)
            if found is None:
                found = self._clients[address] = self._make(address)
            return found

    def of_slot(self, slot: int) -> Any:
        """Return the client of the node that serves a slot.

        Raises:
            ClusterDownError: none does.
        """
        return self.at(self.map.address_of(slot))

    def primaries(self) -> list[Any]:
        """Return the clients of all nodes that serve slots."""
        return [self.at(address) for address in self.map.primaries()]

    def to_ask(self) -> list[Address]:
        """Return the nodes to ask for the slots: those known, then the seeds."""
        return list(dict.fromkeys((*self.map.primaries(), *self._clients, *self._seeds)))

    def moved(self, slot: int, address: Address) -> None:
        """Note where a slot is served now."""
        with self._lock:
            self.map = self.map.with_moved(slot, address)

    def all(self) -> list[Any]:
        """Return the clients of all nodes that were used."""
        with self._lock:
            return list(self._clients.values())


class NodeRoute:
    """Where to send one command next, until a node answers it.

    A slot that is being moved refuses scripts until it has arrived: meanwhile, some keys of a run
    are here and some there, and a script would take those that it does not see for missing.

    Args:
        words: the command, named as on the cluster.

    Raises:
        ClusterDownError: no node serves its slot.
    """

    def __init__(self, nodes: Nodes, words: Sequence[Any]) -> None:
        self._nodes = nodes
        self._slot = one_slot(words)
        self._is_script = str(words[0]).upper() in _SCRIPTS
        self._left = _REDIRECTIONS
        self.node = nodes.of_slot(self._slot)
        self.is_asking = False  # whether the node only answers after ASKING

    def follow(self, error: AskError) -> None:
        """Go where a refusal says: for good, or for this time.

        Raises:
            TryAgainError: the command cannot be answered now.
        """
        self._left -= 1
        if not self._left:
            raise TryAgainError(
                f"the nodes do not agree on who serves slot {self._slot}"
            ) from error
        address = (error.host, error.port)
        self.is_asking = not isinstance(error, MovedError)  # a kind of AskError for redis-py
        if not self.is_asking:
            self._nodes.moved(self._slot, address)
        elif self._is_script:
            raise TryAgainError(f"slot {self._slot} is being moved to another node") from error
        self.node = self._nodes.at(address)


def _text(word: str | bytes | None) -> str:
    return word.decode() if isinstance(word, bytes) else word or ""
