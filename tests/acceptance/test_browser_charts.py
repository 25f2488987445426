"""Charts are read out: the numbers of a time or a column, under the pointer and by arrow keys."""

from __future__ import annotations

from sleipnir.worker.monitor.formats import NONE
from tests.support.browser import Person
from tests.support.engine import Engine
from tests.support.evaluations import run_rows, write_sorter
from tests.support.site import ServedSite


def test_columns_of_a_histogram_are_read_out_by_keys_and_pointer(
    engine: Engine, site: ServedSite, person: Person
) -> None:
    for version in ("one", "two"):
        write_sorter(engine, version)
        run_rows(engine)
        engine.clock.move(60)
    page = person.open("/evaluations/sorter/golden")
    plot = page.locator("[data-bins]").first
    readout = plot.get_by_role("status")

    plot.focus()
    last = readout.inner_text()
    page.keyboard.press("Home")
    first = readout.inner_text()
    page.keyboard.press("ArrowRight")
    second = readout.inner_text()
    page.keyboard.press("Escape")
    hidden = readout.count()
    plot.locator("g").last.hover()
    pointed = readout.inner_text()

    assert (first[1:], second[1:]) == ("1: 10 rows", "0.9: 0 rows")  # without minus signs
    assert (last, pointed, hidden) == ("+1: 0 rows", "+1: 0 rows", 0)


def test_the_numbers_of_a_time_are_read_out_by_keys(
    engine: Engine, site: ServedSite, person: Person
) -> None:
    engine.finish("start: z\nnodes: {z: {type: end}}")
    page = person.open("/now")
    drawn = page.locator("[data-chart] .drawn").first

    drawn.focus()
    page.keyboard.press("End")
    under_way = drawn.get_by_role("status").locator("p", has_text="succeeded").inner_text()
    page.keyboard.press("ArrowLeft")
    before = drawn.get_by_role("status").locator("p", has_text="succeeded").inner_text()

    assert under_way.split() == ["succeeded", "1"]
    assert before.split() == ["succeeded", NONE]
