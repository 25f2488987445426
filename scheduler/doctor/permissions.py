"""The permissions that a restricted Redis user needs.

A test runs agents as a user with exactly these rules, and checks that the server logs no
refusals.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sleipnir.scheduler.doctor.check import Check
from sleipnir.scheduler.store.cluster.groups import is_grouped
from sleipnir.scheduler.store.cluster.layout import TAGS
from sleipnir.scheduler.store.errors import NoPermissionError

if TYPE_CHECKING:
    import redis

# Ours, and those by which Celery and kombu control and inspect workers.
_KEYS = (
    "sleipnir*",
    "{p[0-9][0-9]}*",
    "{limits}*",
    "{economy}*",
    "_kombu.*",
    "celeryev*",
    "*celery.pidbox*",
    "unacked*",
)
# On a cluster, partitions and the queue are in groups.
_KEYS_OF_GROUPS = ("{g[0-9][0-9]??}*",)
# No command that affects others: none to administer, to list all keys or to flush databases.
_COMMANDS = (
    "-@all",
    "+@read",
    "+@write",
    "+@pubsub",
    "+@transaction",
    "+@connection",
    "-@dangerous",
    "-@admin",
    "+eval",
    "+evalsha",
    "+script|load",
    "+script|exists",
    "+info",
    "+time",
)
# A client of a cluster asks for its nodes, and for keys that are being moved.
_COMMANDS_OF_CLUSTERS = ("+cluster|slots", "+asking")
# A harmless command for each kind of key and command.
_PROBES: tuple[tuple[str, ...], ...] = (
    ("INFO", "server"),
    ("TIME",),
    ("EXISTS", "sleipnir:none"),
    ("EXISTS", "{p00}:none"),
    ("EXISTS", "{limits}:none"),
    ("EXISTS", "{economy}:none"),
    ("EXISTS", "_kombu.binding.none"),
    ("EXISTS", "none.reply.celery.pidbox"),
    ("SREM", "sleipnir:none", "none"),
    ("PUBLISH", "sleipnir:batch:none", ""),
    ("SCRIPT", "EXISTS", "none"),
)
_PROBES_OF_CLUSTERS = (("CLUSTER", "SLOTS"), *(("EXISTS", f"{tag}sleipnir") for tag in TAGS))


def rule(db: int = 0, *, is_cluster: bool = False) -> str:
    """Return what to put after `ACL SETUSER NAME on >PASSWORD` for a user of one database."""
    patterns = (*_KEYS, *_KEYS_OF_GROUPS) if is_cluster else _KEYS
    commands = (*_COMMANDS, *_COMMANDS_OF_CLUSTERS) if is_cluster else _COMMANDS
    keys = (f"~{pattern}" for pattern in patterns)
    channels = (f"&{pattern}" for pattern in ("sleipnir:*", *_channels_of_celery(db)))
    return " ".join(("resetkeys", *keys, "resetchannels", *channels, *commands))


def _channels_of_celery(db: int) -> tuple[str, ...]:
    # Exactly as they are subscribed to: Redis compares patterns literally.
    return f"/{db}.celery.pidbox", f"/{db}.celeryev/*"


def permission_check(client: redis.Redis) -> Check:
    """Check that our user has all permissions; the remedy shows the rule to grant them."""
    db = int(client.connection_pool.connection_kwargs.get("db") or 0)
    remedy = f"ACL SETUSER NAME on >PASSWORD {rule(db, is_cluster=is_grouped(client))}"
    if is_grouped(client):
        remedy += " (on every node, replicas too)"
    refused = [*_refused_commands(client), *_refused_channels(client, db)]
    if refused:
        return Check("Redis user", "error", "; ".join(refused), f"allow it: {remedy}")
    return Check(
        "Redis user", "ok", "has all required permissions", f"for a dedicated user: {remedy}"
    )


def _refused_commands(client: redis.Redis) -> Iterator[str]:
    execute: Any = client.execute_command  # untyped in redis-py
    for probe in _PROBES + (_PROBES_OF_CLUSTERS if is_grouped(client) else ()):
        try:
            execute(*probe)
        except NoPermissionError as error:
            yield f"{' '.join(probe).strip()}: {error}"


def _refused_channels(client: redis.Redis, db: int) -> Iterator[str]:
    for channel in _channels_of_celery(db):
        pubsub: Any = client.pubsub  # untyped in redis-py
        with pubsub() as subscription:
            try:
                subscription.psubscribe(channel)
                subscription.get_message(timeout=1.0)
            except NoPermissionError as error:
                yield f"PSUBSCRIBE {channel}: {error}"
