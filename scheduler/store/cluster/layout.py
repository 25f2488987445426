"""Groups: how partitions and queues are spread over the slots of a cluster.

A script changes a partition and pushes to a queue, so both must be in one slot. A single server has
one group, whose keys are named as in keys.py. A cluster has 16: partition NN belongs to group
NN mod 16, and all its keys, and the group's queue, begin with the group's tag:

    {p07}:run:<run>   is   {g26lg}p07:run:<run>
    sleipnir          is   {g26lg}sleipnir, in each group

The store names keys of partitions as on a single server. The clients of a cluster translate them,
as they look at the keys of a command anyway, to find its node.

Some keys outside of partitions are in groups as well, and begin with their tags: bundles and cached
replies are spread by their names (`tag_for` in groups.py), and the totals of hours and days, and
what is left of removed runs of a batch, are kept for each group, next to what they are added up
from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# Their slots are in the middle of 16 equal ranges, so that 1, 2, 4, 8 or 16 primaries with equal
# ranges have equally many groups, and 3 or 6 at most one more than another. Never change them.
TAGS = (
    *("{g02zc}", "{g06sp}", "{g10zb}", "{g14lm}", "{g18dk}", "{g22cg}", "{g26lg}", "{g30cf}"),
    *("{g34la}", "{g38ck}", "{g42tk}", "{g46bd}", "{g50zt}", "{g54sg}", "{g58jc}", "{g62mo}"),
)
_PARTITIONS = 64
_LENGTH = len("{p00}")
_OF_GROUPS = {
    f"{{p{number:02d}}}": f"{TAGS[number % len(TAGS)]}p{number:02d}"
    for number in range(_PARTITIONS)
}
_OF_PARTITIONS = {named: plain for plain, named in _OF_GROUPS.items()}
_ANY_TAG = "{g????}"
_LENGTH_IN_GROUP = len(TAGS[0]) + len("p00")

# Where a command's keys are, if not in the first place.
_ALL_ARE_KEYS = frozenset({"DEL", "EXISTS", "MGET", "TOUCH", "UNLINK", "WATCH"})
_SECOND_IS_KEY = frozenset({"MEMORY", "OBJECT", "XGROUP", "XINFO"})
_SCRIPTS = frozenset({"EVAL", "EVALSHA"})
_STREAMS = ("STREAMS", b"STREAMS")
# Commands that each node answers for itself.
KEYLESS = frozenset(
    {
        *("ACL", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "DBSIZE", "ECHO", "FLUSHALL", "FLUSHDB"),
        *("INFO", "LASTSAVE", "PING", "PUBLISH", "PUBSUB", "SCAN", "SCRIPT", "SELECT", "TIME"),
    }
)


def grouped(key: str) -> str:
    """Return the name of a key on a cluster."""
    prefix = _OF_GROUPS.get(key[:_LENGTH])
    return key if prefix is None else prefix + key[_LENGTH:]


def tag_of(partition: str) -> str:
    """Return the tag of the group that a partition belongs to."""
    return _OF_GROUPS[partition][: len(TAGS[0])]


def ungrouped(key: Any) -> Any:
    """Return the name that the store has for a key of a cluster, text or bytes."""
    if isinstance(key, bytes):
        return ungrouped(key.decode(errors="surrogateescape")).encode(errors="surrogateescape")
    prefix = _OF_PARTITIONS.get(key[:_LENGTH_IN_GROUP])
    return key if prefix is None else prefix + key[_LENGTH_IN_GROUP:]


def ungrouped_reply(words: Sequence[Any], reply: Any) -> Any:
    """Return a reply in which keys are named as on a single server."""
    if words[0] in ("XREAD", "XREADGROUP") and isinstance(reply, list):
        return [[ungrouped(key), *rest] for key, *rest in reply]
    return reply


def grouped_patterns(pattern: str) -> tuple[str, ...]:
    """Return patterns for SCAN that match on a cluster what one matches on a single server.

    Keys outside of partitions may be in groups, and keep their tags: see `untagged`.
    """
    if pattern.startswith("{p"):
        return (f"{_ANY_TAG}p{pattern.removeprefix('{p').replace('*}', '*', 1)}",)
    return (pattern, _ANY_TAG + pattern) if pattern.startswith("sleipnir") else (pattern,)


def untagged(key: str) -> str:
    """Return a key outside of partitions without the tag of its group."""
    return key[len(TAGS[0]) :] if key[: len(TAGS[0])] in TAGS else key


def key_places(words: Sequence[Any]) -> range:
    """Return the places of the keys in a command, whose name is in place 0."""
    name = str(words[0]).upper()
    if name in _SCRIPTS:
        return range(3, 3 + int(words[2]))
    if name in ("XREAD", "XREADGROUP"):
        first = next(i for i, word in enumerate(words) if word in _STREAMS) + 1
        return range(first, first + (len(words) - first) // 2)
    if name in _ALL_ARE_KEYS:
        return range(1, len(words))
    if name.partition(" ")[0] in KEYLESS:
        return range(0)
    return range(2, 3) if name in _SECOND_IS_KEY else range(1, 2)


def grouped_command(words: Sequence[Any]) -> tuple[Any, ...]:
    """Return a command with its keys named as on a cluster."""
    found = list(words)
    for place in key_places(words):
        if isinstance(found[place], str):
            found[place] = grouped(found[place])
        elif isinstance(found[place], bytes):
            text = found[place].decode(errors="surrogateescape")
            found[place] = grouped(text).encode(errors="surrogateescape")
    return tuple(found)
