"""Pages of archived runs, and of runs whose archive is away."""

from __future__ import annotations

from pathlib import Path

import pytest

from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.worker.monitor.pages.run_head import TABS
from tests.support.archive import PLAIN, archive
from tests.support.engine import Engine
from tests.support.site import ServedSite


@pytest.fixture
def run_id(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run that is archived."""
    monkeypatch.setenv("SLEIPNIR_DATA_DIR", str(tmp_path / "data"))
    engine.configure(archive=str(tmp_path / "archive"))
    run = engine.finish(PLAIN, prompt="Ada and a friend")
    archive(engine)
    return run.run_id


@pytest.fixture
def site(run_id: str, site: ServedSite) -> ServedSite:
    """The monitor over the engine that has it."""
    return site


def test_pages_show_an_archived_run(run_id: str, site: ServedSite) -> None:
    told = site.ask(f"/api/v1/runs/{run_id}").json
    assert told["output"] == "Hello Ada and a friend"
    for tab in TABS:
        assert site.ask(f"/runs/{run_id}/{tab}").status == 200, tab


def test_a_run_says_since_when_it_is_archived_and_where(
    run_id: str, site: ServedSite, tmp_path: Path
) -> None:
    (file,) = (tmp_path / "archive").rglob("*.gz")

    told = site.ask(f"/api/v1/runs/{run_id}").json["archived"]

    assert told == {
        "object": str(file),
        "bytes": file.stat().st_size,
        "at": to_rfc3339(int(1000 * file.stat().st_mtime)),
    }
    assert "archived <time" in " ".join(site.ask(f"/runs/{run_id}").text.split())
    (tmp_path / "archive").rename(tmp_path / "away")
    assert site.ask(f"/api/v1/runs/{run_id}").json["archived"]["at"] is None


def test_pages_say_that_the_archive_is_away_and_lists_work(
    run_id: str, site: ServedSite, tmp_path: Path
) -> None:
    (tmp_path / "archive").rename(tmp_path / "away")

    told = site.ask(f"/api/v1/runs/{run_id}")

    assert (told.status, told.json["error"]["code"]) == (503, "archive")
    assert site.ask(f"/runs/{run_id}").status == 503
    for page in ("/runs", "/runs?q=friend", "/now", "/batches", f"/api/v1/find?q={run_id[:6]}"):
        assert site.ask(page).status == 200, page
