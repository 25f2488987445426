"""Real processes archive runs: they are shown by commands and pages as before, and retried."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import Sleipnir
from tests.support.monitor_pages import pages, read
from tests.support.services import Fleet
from tests.support.wait import wait_until

GRAPH = """
start: a
settings: {tolerate_failures: false}
nodes:
  a: {type: script, script: a.sh, next: z, state_updates: {a: "{{output}}"}}
  z: {type: end, output: "{{a}}"}
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A worker without the key, and the settings that archive runs at once, encrypted."""
    key = tmp_path / "archive.key"
    key.touch(mode=0o600)
    key.write_text("0123456789abcdef" * 4)
    with Fleet(tmp_path) as fleet:
        fleet.sleipnir.environment |= {
            "SLEIPNIR_ARCHIVE": str(tmp_path / "archive"),
            "SLEIPNIR_ARCHIVE_AFTER_S": "0",
        }
        fleet.start_worker()
        fleet.sleipnir.environment["SLEIPNIR_ARCHIVE_KEY_FILE"] = str(key)
        yield fleet


def waiting(sleipnir: Sleipnir) -> int:
    found: int = json.loads(sleipnir("archive", "status", "--json").stdout)["waiting"]
    return found


def test_what_is_archived_is_shown_and_retried_as_before(fleet: Fleet, tmp_path: Path) -> None:
    sleipnir, mended = fleet.sleipnir, tmp_path / "mended"
    sleipnir.write("tried", GRAPH, {"a.sh": f'test -e {mended} && echo \'{{"output": "ok"}}\''})
    dying = fleet.start_scheduler(SLEIPNIR_FAILPOINT="after.archive:kill")
    run_id = sleipnir("submit", "tried").stdout.strip()
    shown = sleipnir("watch", run_id).stdout
    dying.wait()
    fleet.start_scheduler()
    wait_until(lambda: waiting(sleipnir) == 0, "the run is archived", 60)

    assert [file.name for file in (tmp_path / "archive").rglob("*.gz")] == [f"{run_id}.json.gz"]
    assert sleipnir("watch", run_id).stdout == shown
    assert "failed" in sleipnir("ps").stdout
    with pages(sleipnir) as address:
        assert "exit code 1" in read(f"{address}/runs/{run_id}")
    mended.touch()
    sleipnir("retry", run_id)
    assert sleipnir("watch", run_id).stdout.endswith("ok\n")
    assert json.loads(sleipnir("archive", "verify", "--json").stdout)["bad"] == []
