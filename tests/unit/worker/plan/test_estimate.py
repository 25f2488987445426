"""Estimates from a sample of lines."""

from __future__ import annotations

from random import Random

from sleipnir.worker.plan.estimate import draw, estimate, strata_of


def test_the_interval_holds_the_cost_of_all_lines_as_often_as_it_says() -> None:
    random = Random(3)
    lengths = {number: random.expovariate(1 / 400) for number in range(2_000)}
    costs = {number: length * random.lognormvariate(0, 0.5) for number, length in lengths.items()}
    true, strata = sum(costs.values()), strata_of(lengths)

    held = 0
    for seed in range(100):
        chosen = draw(strata, 50, seed)
        found = estimate(strata, {number: costs[number] for number in chosen})
        assert found.low is not None
        assert found.high is not None
        held += found.low <= true <= found.high

    assert held >= 83


def test_a_draw_takes_of_all_lengths_and_is_the_same_for_the_same_seed() -> None:
    strata = strata_of({number: number % 7 for number in range(1, 24)})

    chosen = draw(strata, 10, seed=0)

    assert [len(part) for part in strata] == [4, 5, 4, 5, 5]
    assert len(set(chosen)) == 10
    assert all(set(chosen) & set(part) for part in strata)
    assert draw(strata, 10, seed=0) == chosen != draw(strata, 10, seed=1)
    assert sorted(draw(strata, 99, seed=0)) == list(range(1, 24))


def test_of_few_lines_there_is_no_interval_and_of_all_it_is_the_sum() -> None:
    lengths = dict.fromkeys(range(20), 1.0)
    few = estimate(strata_of(lengths), {1: 2.0, 7: 4.0})
    whole = estimate(strata_of(lengths), dict.fromkeys(lengths, 2.0))

    assert (few.expected, few.low, few.high) == (60.0, None, None)
    assert (whole.expected, whole.low, whole.high) == (40.0, 40.0, 40.0)
