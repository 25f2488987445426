"""Groups of requests that are sent to a provider as one batch, and who may send them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import field, fields, replace
from typing import Any, Literal, TypeAlias

from sleipnir.records import dataclass
from sleipnir.scheduler.store.economy.keys import (
    COLLECTIONS,
    GROUPS,
    PARTITION,
    WISHES,
    lease_key,
    shares_key,
)
from sleipnir.scheduler.store.transitions import Transitions

# filling: it gets requests; ready: it waits until it may be sent; sending: it may have been sent,
# or not; sent: it is with the provider; ended: its results are there; halving: it was refused,
# and becomes two; told: all its requests have their results.
GroupState: TypeAlias = Literal["filling", "ready", "sending", "sent", "ended", "halving", "told"]


@dataclass(frozen=True, slots=True)
class Group:
    """A group of requests."""

    group_id: str  # 32 hexadecimal digits
    provider: str
    collection: str
    state: GroupState
    created_ms: int
    due_ms: int = 0  # when it is to be looked at next
    count: int = 0
    bytes: int = 0
    tokens: int = 0
    since_ms: int = 0  # since when it may have been sent
    file_id: str = ""  # of the uploaded requests
    batch_id: str = ""  # the provider's
    pause_s: float = 0.0  # before the last poll
    status: str = ""  # the provider's word
    counts: Mapping[str, int] = field(default_factory=dict)  # completed, failed, total
    results: tuple[str, ...] = ()  # where the results are
    bodies_gone: bool = False
    cancelled: bool = False  # nobody waits for it, and the provider was told
    after: str = ""  # the group that has to be done before
    halves: tuple[str, ...] = ()
    trouble: str = ""  # why it is not getting on, or was refused
    failures: int = 0  # in a row, of talking to the provider
    adopted: bool = False  # its first result decides whether it is ours
    disowned: tuple[str, ...] = ()  # batches that turned out to be another's

    @property
    def is_chat(self) -> bool:
        """Whether its results are chat completions, which can be read without their requests."""
        return self.provider != "anthropic"

    def to_json(self) -> str:
        return json.dumps({each.name: getattr(self, each.name) for each in fields(self)})

    @classmethod
    def from_json(cls, text: str) -> Group:
        values = json.loads(text)
        known = {each.name for each in fields(cls)}
        values = {name: value for name, value in values.items() if name in known}
        for name in ("results", "halves", "disowned"):
            values[name] = tuple(values.get(name, ()))
        return cls(**values)


class Groups:
    """All groups, and the leases of those who carry them."""

    def __init__(self, store: Transitions) -> None:
        self._store = store
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = store.client
        self._kept_ms = 2 * int(store.settings.retention_s * 1000)

    def is_idle(self) -> bool:
        """Return whether there is nothing to collect or to carry."""
        return not self._redis.exists(COLLECTIONS, GROUPS)

    def all(self) -> list[Group]:
        """Return all groups, the oldest first."""
        found = [Group.from_json(text) for text in self._redis.hvals(GROUPS)]
        return sorted(found, key=lambda group: (group.created_ms, group.group_id))

    def collections(self) -> list[str]:
        """Return the names of collections that may have requests."""
        return sorted(self._redis.zrange(COLLECTIONS, 0, -1))

    def forget_collection(self, name: str, before_ms: int) -> None:
        """Forget the name of a collection that is empty, unless it was announced since."""
        score = self._redis.zscore(COLLECTIONS, name)
        if score is not None and score < before_ms:
            self._redis.zrem(COLLECTIONS, name)

    def take_lease(self, provider: str, token: str, lease_ms: int) -> bool:
        """Take or renew the lease of a provider; return whether it is held."""
        key = lease_key(provider)
        if self._redis.set(key, token, nx=True, px=lease_ms):
            return True
        return self.renew_lease(provider, token, lease_ms)

    def renew_lease(self, provider: str, token: str, lease_ms: int) -> bool:
        """Renew a lease; return whether it is still held."""
        key = lease_key(provider)
        if self._redis.get(key) != token:
            return False
        return bool(self._redis.pexpire(key, lease_ms))

    def release_lease(self, provider: str, token: str) -> None:
        """Let another worker carry on at once."""
        if self._redis.get(lease_key(provider)) == token:
            self._redis.delete(lease_key(provider))

    def write(self, group: Group, token: str, **changes: Any) -> Group:
        """Store a group with these changes, and return it.

        Raises:
            TransitionRefused: the lease is lost.
        """
        changed = replace(group, **changes)
        self._write(changed, token, changed.to_json())
        return changed

    def forget(self, group: Group, token: str) -> None:
        """Forget a group that is done; raises as `write`."""
        self._write(group, token, "")

    def _write(self, group: Group, token: str, text: str) -> None:
        write = self._store.transition("write_group")
        arguments = (group.provider, token, group.group_id, text, self._kept_ms)
        write(PARTITION, *arguments, clock=self._store.clock.argument())

    # ---- equal requests

    def share(self, group_id: str, shares: Mapping[str, Sequence[str]]) -> None:
        """Note which requests get the reply to another one; replaces what was noted before."""
        key = shares_key(group_id)
        texts = {leader: " ".join(others) for leader, others in shares.items()}
        with self._redis.pipeline() as pipe:
            pipe.delete(key)
            if texts:
                pipe.hset(key, mapping=texts)
                pipe.pexpire(key, self._kept_ms)
            pipe.execute()

    def shares(self, group_id: str) -> dict[str, list[str]]:
        """Return these, by the request that has a line."""
        found: dict[str, str] = self._redis.hgetall(shares_key(group_id))
        return {leader: others.split(" ") for leader, others in found.items()}

    # ---- what people want

    def wish(self, name: str) -> None:
        """Note `send PROVIDER` or `live GROUP` for whoever carries it."""
        self._redis.hset(WISHES, name, self._store.clock.now_ms())
        self._redis.pexpire(WISHES, self._kept_ms)

    def wishes(self) -> set[str]:
        """Return what people want."""
        return set(self._redis.hkeys(WISHES))

    def grant(self, name: str) -> None:
        """Note that it is done."""
        self._redis.hdel(WISHES, name)


def new_group_id() -> str:
    """Return a random id."""
    return secrets.token_hex(16)
