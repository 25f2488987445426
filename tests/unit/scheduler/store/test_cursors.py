"""Lists that are read page by page, by a cursor, from many indexes at once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleipnir.scheduler.errors import BadCursor
from sleipnir.scheduler.store.queries.cursors import ListKind, Position, from_cursor, to_cursor
from sleipnir.scheduler.store.queries.merging import MergedList, RangeAnswer, RangeRequest

# Few instants and names, so that many are equal.
positions = st.builds(Position, st.integers(0, 5), st.text("abc", min_size=1, max_size=3))
entries = st.lists(positions, unique_by=lambda entry: entry.name, max_size=40)
kinds = st.sampled_from(["runs", "questions", "batches"])


class Indexes:
    """Sorted sets in this process; each entry lies in the one that its name says."""

    def __init__(
        self, keys: Sequence[str], entries: Sequence[Position], newest_first: bool
    ) -> None:
        self.keys = keys
        self.entries = list(entries)
        self.newest_first = newest_first
        self.rounds = 0

    def list(self) -> list[Position]:
        return sorted(self.entries, reverse=self.newest_first)

    def read(self, readings: Sequence[RangeRequest]) -> list[RangeAnswer]:
        self.rounds += 1
        return [self._read(reading) for reading in readings]

    def _read(self, reading: RangeRequest) -> RangeAnswer:
        key, after, most = reading
        mine = [
            entry
            for entry in self.list()
            if self.keys[sum(map(ord, entry.name)) % len(self.keys)] == key
            and (after is None or (entry != after and (entry < after) == self.newest_first))
        ]
        return RangeAnswer(mine[:most], ended=len(mine) < most)


@given(entries, st.integers(1, 5), st.integers(1, 9), st.booleans())
def test_pages_are_the_sorted_list_in_pieces(
    entries: list[Position], count: int, page: int, newest_first: bool
) -> None:
    indexes = Indexes([str(number) for number in range(count)], entries, newest_first)
    merged = MergedList(indexes.keys, indexes.read, newest_first=newest_first)

    pages = []
    while taken := merged.take(page):
        pages.append(taken)

    assert [entry for taken in pages for entry in taken] == indexes.list()
    assert all(len(taken) == page for taken in pages[:-1])


@given(entries, st.data(), st.integers(1, 5), st.integers(1, 6), st.booleans())
def test_pages_by_cursor_are_stable_while_entries_come_and_go(
    entries: list[Position], data: st.DataObject, count: int, page: int, newest_first: bool
) -> None:
    indexes = Indexes([str(number) for number in range(count)], [], newest_first)
    spare = list(entries)
    lasting = [spare.pop() for _ in range(len(spare) // 2)]
    indexes.entries += lasting
    seen: list[Position] = []
    after = None
    while True:
        merged = MergedList(indexes.keys, indexes.read, after=after, newest_first=newest_first)
        taken = merged.take(page)
        if not taken:
            break
        seen += taken
        after = from_cursor("runs", to_cursor("runs", taken[-1]))
        if spare and data.draw(st.booleans()):
            indexes.entries.append(spare.pop())
        passing = [entry for entry in indexes.entries if entry not in lasting]
        if passing and data.draw(st.booleans()):
            indexes.entries.remove(passing[0])

    # Whatever was there all the time is told once, in order.
    assert seen == sorted(set(seen), reverse=newest_first)
    assert set(lasting) <= set(seen)


def test_an_index_gives_no_more_than_it_takes_to_fill_a_page() -> None:
    entries = [Position(n, f"{n:04}") for n in range(10_000)]
    indexes = Indexes([str(number) for number in range(64)], entries, newest_first=True)
    given_out = 0

    def read(readings: Sequence[RangeRequest]) -> list[RangeAnswer]:
        nonlocal given_out
        answers = indexes.read(readings)
        given_out += sum(len(answer.entries) for answer in answers)
        return answers

    page = MergedList(indexes.keys, read).take(50)

    assert page == indexes.list()[:50]
    assert given_out <= 400
    assert indexes.rounds <= 4


def test_an_entry_that_two_indexes_have_is_told_once() -> None:
    both = [Position(2, "b"), Position(1, "a")]

    def read(readings: Sequence[RangeRequest]) -> list[RangeAnswer]:
        return [RangeAnswer([] if reading.after else both, ended=True) for reading in readings]

    assert MergedList(["x", "y"], read).take(5) == both


@given(kinds, st.integers(0, 2**53), st.text(min_size=1, max_size=50))
def test_a_cursor_names_its_place_and_needs_no_quoting(
    kind: ListKind, instant: int, name: str
) -> None:
    cursor = to_cursor(kind, Position(instant, name))

    assert from_cursor(kind, cursor) == (instant, name)
    assert cursor.replace("_", "").replace("-", "").isalnum()
    assert not cursor.startswith("-")


@given(kinds, st.text(max_size=80))
def test_any_text_is_a_cursor_or_is_refused(kind: ListKind, text: str) -> None:
    with suppress(BadCursor):
        position = from_cursor(kind, text)
        assert from_cursor(kind, to_cursor(kind, position)) == position


@pytest.mark.parametrize("text", ["", "x", "=", "é", "cnVuczoxOmE" * 1000, "cnVuczp4OmE", "a\nb"])
def test_bad_cursors(text: str) -> None:
    with pytest.raises(BadCursor, match="is not a valid cursor for a list of runs") as refused:
        from_cursor("runs", text)

    assert len(str(refused.value).splitlines()) == 1
    assert len(str(refused.value)) < 250


def test_the_cursor_of_one_kind_of_list_does_not_fit_another() -> None:
    cursor = to_cursor("batches", Position(1, "night"))

    with pytest.raises(BadCursor, match="cursor for a list of runs"):
        from_cursor("runs", cursor)
