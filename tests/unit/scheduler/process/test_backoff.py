"""Pauses between attempts."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.process import backoff
from sleipnir.scheduler.process.backoff import Backoff


@pytest.mark.parametrize(
    ("kind", "pauses"),
    [
        (backoff.RESTART, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]),
        (backoff.EMBEDDING, [1, 2, 4, 8, 16, 32, 60]),
        (backoff.EXHAUSTED_QUOTA, [30, 60, 120, 240, 480, 900, 900]),
    ],
)
def test_pauses_double_up_to_the_longest(kind: Backoff, pauses: list[float]) -> None:
    assert [kind.pause_s(attempt) for attempt in range(1, 8)] == pauses
    assert kind.pause_s(1_000_000) == kind.longest_s


def test_what_a_server_asks_for_wins_if_it_is_longer() -> None:
    assert [backoff.EMBEDDING.pause_s(2, asked_s) for asked_s in (None, 1.5, 90.0)] == [2, 2, 90]


def test_nodes_that_failed_together_come_back_one_after_the_other() -> None:
    pauses = {backoff.of_node(8.0).pause_s(2) for _ in range(100)}

    assert len(pauses) > 1
    assert all(12.0 <= pause_s <= 16.0 for pause_s in pauses)
