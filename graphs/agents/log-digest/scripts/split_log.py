"""Cut the log into byte ranges of similar size, never through the middle of an entry."""

from itertools import pairwise
from typing import Any

from entries import begins_entry
from node import emit, fail, read_state
from source import NoLog, can_seek, inspect, lines, locate, open_bytes

SMALLEST, USUAL = 64 * 1024, 4 * 1024 * 1024
# So that even the digests of a huge log stay well below the size limits of the state.
MOST_CHUNKS = 64
# Lines looked at for the beginning of an entry before cutting anyway.
PATIENCE = 2000
BLOCK = 1024 * 1024


def chunks_of(log: dict[str, Any], state: dict[str, Any]) -> list[dict[str, Any]]:
    """`{"start": byte, "end": byte, "first_line": number}`, together the whole log."""
    if not can_seek(log):
        return [{"start": 0, "end": None, "first_line": 1}]
    with open_bytes(log, state) as stream:
        total = stream.seek(0, 2)
    size = max(min(max(total // 8, SMALLEST), USUAL), total // MOST_CHUNKS + 1)
    cuts = [0]
    for wanted in range(size, total, size):
        cut = next_cut(log, state, wanted, total)
        if cuts[-1] < cut < total:
            cuts.append(cut)
    cuts.append(total)
    numbers = line_numbers(log, state, cuts)
    return [
        {"start": start, "end": end, "first_line": number}
        for (start, end), number in zip(pairwise(cuts), numbers, strict=False)
    ]


def next_cut(log: dict[str, Any], state: dict[str, Any], wanted: int, total: int) -> int:
    """The offset of the first entry that begins after `wanted`."""
    before, offset = None, total
    # The first line read is the rest of one that began earlier.
    for count, (offset, text) in enumerate(lines(log, state, wanted)):
        if count > 1 and (begins_entry(text, before, log["headed"]) or count > PATIENCE):
            return offset
        before = text
    return total


def line_numbers(log: dict[str, Any], state: dict[str, Any], cuts: list[int]) -> list[int]:
    """The number of the line at each cut, counted by streaming the log once."""
    numbers, number = [], 1
    with open_bytes(log, state) as stream:
        for start, end in pairwise(cuts):
            numbers.append(number)
            left = end - start
            while left and (block := stream.read(min(left, BLOCK))):
                number += block.count(b"\n")
                left -= len(block)
    return numbers


def main() -> None:
    state = read_state()
    try:
        log = inspect(locate(state["initial_prompt"]), state)
        chunks = chunks_of(log, state)
    except (NoLog, OSError) as problem:
        fail(str(problem))
    emit(log=log, chunks=chunks)


main()
