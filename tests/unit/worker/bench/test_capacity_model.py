"""The examples of docs/scaling.md are those that the model gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sleipnir.worker.bench.capacity.case import DAILY
from sleipnir.worker.bench.capacity.model import Constants, Load, needs, throughput

PAGE = (Path(__file__).parents[4] / "docs" / "scaling.md").read_text(encoding="utf-8")


NAMES = ("100,000", "1 million", "10 million")


@pytest.mark.parametrize(("runs", "name"), [*zip(DAILY, NAMES, strict=True)])
def test_an_example_is_what_the_model_says(runs: int, name: str) -> None:
    found = needs(Load(runs), Constants())

    (row,) = re.findall(rf"^\| {name} \| (.+?) \|$", PAGE, re.M)
    visits, calls, redis, limits, memory, threads, cores, _ = row.split(" | ")
    gib = found.memory_gib
    size = f"{gib:.0f} GiB" if gib < 1024 else f"{gib / 1024:.1f} TiB"
    assert (visits, calls) == (f"{found.visits_a_second:,.0f}", f"{found.calls_a_second:,.0f}")
    assert (memory, threads) == (size, f"{found.threads:,.0f}")
    for text, value in ((redis, found.redis_load), (limits, found.limits_load)):
        assert float(text) == pytest.approx(value, rel=0.1)
    assert float(cores) == pytest.approx(found.worker_cores, rel=0.1)


def test_processes_are_bound_by_their_loops_and_then_by_the_cores() -> None:
    assert throughput(1, 1_000, 0.0005, 2) == 1_000
    assert throughput(8, 1_000, 0.0005, 2) == 4_000
    assert throughput(8, 1_000, 0.0005, 2, used=0.8) == pytest.approx(3_200)
