"""Drawings that take too long: pages do without them, and nothing else waits for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
import yaml

from sleipnir.graphs.drawing import outline_of
from sleipnir.scheduler.process.drawing.processes import DrawingTooLarge
from sleipnir.scheduler.views.versions import AgentVersion
from sleipnir.worker.monitor import drawings as monitor_drawings
from sleipnir.worker.monitor.drawings import DrawingNotReady, Drawings
from tests.support.dense_graphs import dense
from tests.support.engine import Engine
from tests.support.graphs import make_graph
from tests.support.on_asyncio import run_in_thread
from tests.support.site import ServedSite
from tests.support.wait import wait_until


@pytest.fixture
def drawings(engine: Engine) -> Iterator[Drawings]:
    made = Drawings(engine.client, limit_s=0.05, max_wait_s=600)
    yield made
    made.close()


def submitted(engine: Engine, nodes: int = 60) -> str:
    return engine.submit(yaml.safe_dump(dense(nodes)), {"go.sh": "echo '{}'"})


def version(digest: str, nodes: int) -> AgentVersion:
    graph = make_graph({"name": "tested", **dense(nodes)})
    return AgentVersion({"digest": digest}, graph, outline_of(graph), {}, {})


def test_a_page_whose_drawing_is_given_up_lists_the_nodes(
    engine: Engine, site: ServedSite, drawings: Drawings
) -> None:
    site.site.drawings = drawings
    run_id = submitted(engine)

    page = site.ask(f"/runs/{run_id}/graph?node=n7").text
    picture = site.ask(f"/api/v1/runs/{run_id}/graph.svg")
    agent = site.ask("/agents/tested?tab=graph").text

    why = "laying out 62 boxes and 1,772 arrows takes more than 0.05 s"
    assert f"There is no drawing: {why}" in page
    assert '<details class="nodes" open>' in page
    assert ">n59</a>" in page
    assert '<h2 tabindex="-1">n7</h2>' in page
    assert (picture.status, picture.json["error"]["message"]) == (422, why)
    assert f"There is no drawing: {why}. The nodes are listed below." in agent
    assert 'class="graph' not in page + agent


def test_other_requests_are_answered_while_a_graph_is_laid_out(
    engine: Engine, site: ServedSite
) -> None:
    site.site.drawings.close()
    site.site.drawings = Drawings(engine.client, limit_s=600, max_wait_s=600)
    run_id = submitted(engine)
    waiting = [threading.Thread(target=site.ask, args=(f"/runs/{run_id}/graph",)) for _ in range(8)]
    for each in waiting:
        each.start()
    wait_until(lambda: site.site.drawings._native._pool._busy, "it is being laid out", 60)

    others = [site.ask(path).status for path in ("/healthz", f"/api/v1/runs/{run_id}/graph")]
    still = sum(each.is_alive() for each in waiting)
    site.site.drawings.close()
    for each in waiting:
        each.join()

    assert (others, still) == ([200, 200], 8)


def test_requests_for_one_drawing_share_its_layout_and_too_many_are_refused(
    drawings: Drawings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor_drawings, "_MOST_WAITING", 2)
    small = drawings.of_version(version("small", 3))

    async def look() -> tuple[list[object], list[object]]:
        twice = await asyncio.gather(drawings.picture(small), drawings.picture(small))
        large = [drawings.of_version(version(f"large {number}", 60)) for number in range(4)]
        many = await asyncio.gather(*map(drawings.picture, large), return_exceptions=True)
        return list(twice), list(many)

    (first, second), many = run_in_thread(look())

    assert first is second
    assert [type(each) for each in many[:2]] == [DrawingTooLarge] * 2
    assert [str(each) for each in many[2:] if isinstance(each, DrawingNotReady)] == [
        "too many drawings are being laid out now; reload this later"
    ] * 2
