"""How far a search looks before it says so."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sleipnir.scheduler.store.queries import indexes
from sleipnir.scheduler.store.queries.cursors import Position
from sleipnir.scheduler.store.queries.merging import MergedList, RangeAnswer, RangeRequest


class SlowStore:
    """An index of many entries, and a clock: each chunk and each entry take their time."""

    def __init__(self, chunk_s: float, entry_s: float, size: int = 100_000) -> None:
        self.now_s = 0.0
        self._chunk_s, self._entry_s, self._size = chunk_s, entry_s, size

    def read(self, requests: Sequence[RangeRequest]) -> list[RangeAnswer]:
        def answer(request: RangeRequest) -> RangeAnswer:
            first = self._size if request.after is None else request.after.instant - 1
            entries = range(first, max(0, first - request.most), -1)
            ended = len(entries) < request.most
            return RangeAnswer([Position(n, f"{n}") for n in entries], ended=ended)

        return [answer(request) for request in requests]

    def choose(self, entries: Sequence[Position]) -> list[str | None]:
        self.now_s += self._chunk_s + self._entry_s * len(entries)
        return [entry.name if entry.instant % 5_000 == 0 else None for entry in entries]


@pytest.mark.parametrize(("chunk_s", "entry_s"), [(0.001, 0.0005), (0.04, 0.0), (0.01, 0.002)])
def test_a_search_ends_in_time_however_slow_redis_is(
    monkeypatch: pytest.MonkeyPatch, chunk_s: float, entry_s: float
) -> None:
    store = SlowStore(chunk_s, entry_s)
    monkeypatch.setattr(indexes, "monotonic", lambda: store.now_s)
    merged = MergedList(["index"], store.read)

    page = indexes.find_page("runs", merged, 50, store.choose)

    assert page.entries[0] == "100000"
    assert len(page.entries) < 50
    assert not page.searched.complete
    assert page.next is not None
    assert store.now_s <= 1.1 * indexes.MOST_SECONDS
    assert page.searched.entries >= 50
    assert page.searched.back_to == 100_001 - page.searched.entries


def test_a_search_that_has_seen_everything_is_complete_however_long_it_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = SlowStore(chunk_s=1.0, entry_s=0.0, size=3)
    monkeypatch.setattr(indexes, "monotonic", lambda: store.now_s)

    page = indexes.find_page("runs", MergedList(["index"], store.read), 50, store.choose)

    assert (page.entries, page.next) == ([], None)
    assert page.searched.complete
