"""The list of runs as people arrange it: columns, order, states with numbers, filters."""

from __future__ import annotations

import re
from html import unescape

import pytest

from tests.support.engine import Engine
from tests.support.site import ServedSite

QUICK = "start: z\nnodes: {z: {type: end}}"
ASKS = """
start: name
nodes:
  name: {type: input, question: "Under which name?", next: z}
  z: {type: end}
"""
BREAKS = """
settings: {tolerate_failures: false}
start: a
nodes:
  a: {type: script, script: a.sh, next: z}
  z: {type: end}
"""


def heads(page: str) -> list[str]:
    """The names of the columns that are shown."""
    (head,) = re.findall(r"<thead>.*?</thead>", page, re.S)
    return re.findall(r"<th[^>]*>(?:<a[^>]*>)?(\w+)", head)


def links(page: str, style: str) -> dict[str, str]:
    """The addresses of links of a kind by their words, numbers left out."""
    found = re.findall(rf'<a class="{style}[^"]*"\s+href="([^"]*)"[^>]*>(.*?)</a>', page, re.S)
    words = [" ".join(re.findall(r"[a-z]\w*", re.sub("<[^>]*>", " ", text))) for _, text in found]
    return dict(zip(words, (unescape(address) for address, _ in found), strict=True))


def rows(page: str) -> list[str]:
    return re.findall(r'<tr data-row="(\w+)"', page)


def test_the_columns_are_chosen_in_the_address(engine: Engine, site: ServedSite) -> None:
    run = engine.finish(QUICK)

    plain, few = site.ask("/runs").text, site.ask("/runs?cols=id,cost").text

    assert heads(plain)[:4] == ["State", "What", "Where", "Started"]
    assert heads(plain)[4:] == ["Took", "Tokens", "Cost", "Children", "Labels"]
    assert heads(few) == ["State", "What", "Cost", "Id"]
    assert heads(site.ask("/runs?cols=none").text) == ["State", "What"]
    assert f'data-copied="{run.run_id}"' in few
    assert 'href="?cols=id"' in few
    assert "there are where, started" in site.ask("/runs?cols=price").text
    assert site.ask("/api/v1/runs?cols=id").status == 400


def test_the_most_expensive_runs_come_first(engine: Engine, site: ServedSite) -> None:
    ids = []
    for seconds in (20, 300, 1):
        ids.append(engine.submit(ASKS))
        engine.drive()
        engine.clock.move(seconds)

    page = site.ask("/runs?sort=took&limit=3").text

    assert rows(page) == [ids[0], ids[1], ids[2]]
    assert rows(site.ask("/runs").text) == [ids[2], ids[1], ids[0]]
    assert '<th class="n" aria-sort="descending"><a href="?limit=3">Took' in page
    assert site.ask("/runs?sort=beauty").status == 400


def test_a_row_says_what_the_run_is_about_and_is_a_link(engine: Engine, site: ServedSite) -> None:
    files = {"a.sh": "echo 'no <ink>' >&2; exit 3"}
    failed = engine.finish(BREAKS, files, prompt="x" * 90, labels={"source": "web"}, batch="b/1")
    for _ in range(5):
        engine.finish(QUICK)
        engine.clock.move(1)
    site.site.typical.of("tested")

    page = site.ask("/runs").text

    assert f'<a class="row-link" href="/runs/{failed.run_id}">' in page
    assert f"<b>{'x' * 79}…</b>" in page
    assert f'<a class="reason" href="/runs/{failed.run_id}?node=a">R' in page
    assert "no &lt;ink&gt;" in page
    assert '<a class="label" href="?label=source%3Dweb">source=web</a>' in page
    assert 'title="batch b/1" href="?batch=b%2F1">b/1</a>' in page


def test_states_have_numbers_and_what_is_open_is_split_once_chosen(
    engine: Engine, site: ServedSite
) -> None:
    engine.finish(ASKS)
    engine.finish(QUICK)
    begun = engine.submit(QUICK)
    taken = engine.pop()
    assert taken is not None
    engine.begin(begun, taken[1])
    for _ in range(2):
        engine.submit(QUICK)

    page = site.ask("/runs?cols=cost").text
    chips = links(page, "chip")
    opened = site.ask("/runs" + chips["open"]).text

    assert "</span> open <b>3</b>" in re.sub(r"\s+", " ", page)
    assert "queued" not in chips
    assert chips["failed"] == "?cols=cost&status=failed"
    assert "</span> queued <b>2</b>" in re.sub(r"\s+", " ", opened)
    assert "</span> running <b>1</b>" in re.sub(r"\s+", " ", opened)
    assert len(rows(opened)) == 3


def test_numbers_of_many_open_runs_are_marked_as_estimates(
    engine: Engine, site: ServedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sleipnir.scheduler.store.queries.totals._MOST_SAMPLED", 1)
    for _ in range(66):  # more than there are partitions
        engine.submit(QUICK)

    opened = re.sub(r"\s+", " ", site.ask("/runs?status=queued").text)
    of_agent = re.sub(r"\s+", " ", site.ask("/runs?status=queued&agent=none").text)

    assert "</span> open <b>66</b>" in opened
    assert "</span> queued <b>≈ 66</b>" in opened
    assert "</span> running <b>≈ 0</b>" in opened
    assert "</span> queued</a>" in of_agent


def test_a_filter_can_be_taken_away_alone(engine: Engine, site: ServedSite) -> None:
    engine.finish(QUICK, batch="<b>", labels={"team": "red"})

    page = site.ask("/runs?batch=%3Cb%3E&label=team%3Dred&label=a%3Db&status=failed").text

    assert links(page, "chip")["label team red"] == "?batch=%3Cb%3E&status=failed&label=a%3Db"
    assert links(page, "chip")["batch lt b gt"].count("label=") == 2
    assert "No run matches" in page
