"""What is kept of a node's output: head and tail of each entry, and the newest entries."""

from __future__ import annotations

import pytest

from sleipnir.worker.visit.run_log import RunLog, head_and_tail


@pytest.mark.parametrize("text", ["", "short", "é" * 50, "x" * 100])
def test_a_text_that_fits_is_kept_as_it_is(text: str) -> None:
    assert head_and_tail(text, 100) == text


@pytest.mark.parametrize("character", ["x", "é", "漢", "😀"])
def test_of_a_longer_text_head_and_tail_are_kept(character: str) -> None:
    text = f"first {character * 10_000} last"

    kept = head_and_tail(text, 100)

    assert kept.startswith(f"first {character}")
    assert kept.endswith(f"{character} last")
    missing = len(text.encode()) - 100
    assert f"\n[{missing:,} bytes left out]\n" in kept


def test_of_many_entries_the_newest_are_kept() -> None:
    log = RunLog(64 * 1024)

    for number in range(100):
        log.keep("stderr", f"{number} " + "x" * 990)

    kept = [text.split()[0] for _, text in log]
    assert kept == [str(number) for number in range(100 - len(kept), 100)]
    assert len(kept) in range(60, 67)
    assert log.dropped == 100 - len(kept)
