"""Groups on a cluster: where their keys are, and how evenly."""

from __future__ import annotations

from collections import Counter

import pytest

from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.store.cluster.layout import (
    TAGS,
    grouped,
    grouped_command,
    grouped_patterns,
    ungrouped,
)
from sleipnir.scheduler.store.cluster.nodes import NOTHING, SLOTS, SlotMap, slot_of
from sleipnir.scheduler.store.cluster.url import ClusterUrl


@pytest.mark.parametrize("primaries", [1, 2, 3, 4, 6, 8, 16])
def test_equal_primaries_have_equally_many_groups(primaries: int) -> None:
    found = Counter(slot_of(tag) * primaries // SLOTS for tag in TAGS)

    assert len(found) == primaries
    assert max(found.values()) - min(found.values()) <= (0 if 16 % primaries == 0 else 1)


def test_a_group_has_four_partitions_and_its_queue_in_one_slot() -> None:
    names = [grouped(f"{partition}:run:a") for partition in ALL_PARTITIONS]

    assert [slot_of(name) for name in names] == 4 * [slot_of(f"{tag}sleipnir") for tag in TAGS]
    assert [ungrouped(name) for name in names] == [f"{each}:run:a" for each in ALL_PARTITIONS]
    assert names[7] == f"{TAGS[7]}p07:run:a"
    assert names[63] == f"{TAGS[15]}p63:run:a"


def test_keys_of_no_partition_keep_their_names() -> None:
    for key in ("sleipnir:bundles", "{limits}:names", "{p64}:run", "{p0}", ""):
        assert grouped(key) == ungrouped(key) == key


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (("SET", "{p01}:a", "{p01}"), ("SET", "{g06sp}p01:a", "{p01}")),
        (("SET", b"{p01}:a", b"\xff"), ("SET", b"{g06sp}p01:a", b"\xff")),
        (("EVALSHA", "x", 1, "{p01}", "{p01}"), ("EVALSHA", "x", 1, "{g06sp}p01", "{p01}")),
        (
            ("XREAD", "COUNT", 5, "STREAMS", "{p00}:a", "{p01}:b", "0", "$"),
            ("XREAD", "COUNT", 5, "STREAMS", "{g02zc}p00:a", "{g06sp}p01:b", "0", "$"),
        ),
        (("EXISTS", "{p00}:a", "{p01}:b"), ("EXISTS", "{g02zc}p00:a", "{g06sp}p01:b")),
        (("PUBLISH", "{p00}", "{p01}"), ("PUBLISH", "{p00}", "{p01}")),
        (("SCRIPT LOAD", "{p00}"), ("SCRIPT LOAD", "{p00}")),
    ],
)
def test_only_the_keys_of_a_command_are_translated(
    command: tuple[object, ...], named: tuple[object, ...]
) -> None:
    assert grouped_command(command) == named


def test_patterns_match_the_same_keys_as_on_a_single_server() -> None:
    assert grouped_patterns("{p*}:spend:*") == ("{g????}p*:spend:*",)
    assert grouped_patterns("{p*") == ("{g????}p*",)
    assert grouped_patterns("sleipnir:*") == ("sleipnir:*", "{g????}sleipnir:*")
    assert grouped_patterns("{limits}:*") == ("{limits}:*",)


def test_slots_are_found_missed_and_moved() -> None:
    reply = [[0, 99, [b"", 1, b"id"], [b"b", 3, b"id"]], [200, SLOTS - 1, [b"a", 2, b"id"]]]
    found = SlotMap.read(reply, ("asked", 7))

    assert found.address_of(99) == ("asked", 1)
    assert found.primaries() == [("asked", 1), ("a", 2)]
    assert found.missing() == [(100, 199)]
    assert found.missing([("a", 2)]) == [(100, SLOTS - 1)]
    assert NOTHING.missing() == [(0, SLOTS - 1)]
    moved = found.with_moved(50, ("a", 2)).with_moved(150, ("a", 2))
    assert [moved.address_of(slot)[1] for slot in (49, 50, 51, 150)] == [1, 2, 1, 2]


def test_a_url_has_several_hosts_and_one_login() -> None:
    url = ClusterUrl.parse("rediss+cluster://u:p%40@s@[::1]:7000,b?ssl_ca_certs=/ca.pem")

    assert url.seeds == (("::1", 7000), ("b", 6379))
    options = url.options()
    assert (options["username"], options["ssl_ca_certs"]) == ("u", "/ca.pem")
    for wrong in ("redis+cluster://a:b:c", "redis+cluster://", "redis+cluster://a/1"):
        with pytest.raises(ValueError, match="redis\\+cluster://"):
            ClusterUrl.parse(wrong)
