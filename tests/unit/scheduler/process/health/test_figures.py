"""Counters of a process, and their sums over the processes of a supervisor."""

from __future__ import annotations

import json
from dataclasses import asdict

from prometheus_client.parser import text_string_to_metric_families

from sleipnir.scheduler.process.health.beats import Beat, Beats, sums
from sleipnir.scheduler.process.health.figures import FAMILIES, SLOTS, Figures, exposition

SCRIPTS = 'sleipnir_process_visits_total{queue="gpu",type="script",outcome="done"}'


def counted(visits: int) -> dict[str, float]:
    figures = Figures()
    for _ in range(visits):
        figures.count_visit("gpu", "script", "done", 0.3)
    return figures.samples()


def say(beats: Beats, pid: int, counters: dict[str, float], slots: float = 8) -> None:
    beat = Beat(pid, takes=True, redis_age_s=0.0, counters=counters, gauges={SLOTS: slots})
    beats.for_child.send(json.dumps(asdict(beat)).encode())
    beats.hear()


def test_prometheus_reads_every_family() -> None:
    figures = Figures()
    figures.count_visit("gpu", "script", "failed", 0.3)
    figures.count_visit("gpu", "llm", "waits", 1000.0)
    figures.count_answer(0.001)
    figures.count_error("TimeoutError")
    gauges = {SLOTS: 8.0, "sleipnir_process_busy": 1.0}

    text = exposition(figures.samples() | gauges)

    found = {family.name: family for family in text_string_to_metric_families(text)}
    assert {name.removesuffix("_total") for name in FAMILIES} == found.keys()
    buckets = [
        sample.value
        for sample in found["sleipnir_process_visit_seconds"].samples
        if sample.name.endswith("_bucket") and sample.labels["type"] == "script"
    ]
    assert buckets == [0, 0, 0, 1, 1, 1, 1, 1, 1]


def test_counters_never_decrease_when_a_process_is_restarted() -> None:
    first, second = Beats(), Beats()

    say(first, 1, counted(3))
    say(first, 1, counted(5))
    say(second, 2, counted(2))
    before = sums([first, second])
    say(first, 3, counted(1))
    after = sums([first, second])

    assert (before[SCRIPTS], after[SCRIPTS]) == (7, 8)
    assert (before[SLOTS], after[SLOTS]) == (16, 16)
    for each in (first.source, first.for_child, second.source, second.for_child):
        each.close()
