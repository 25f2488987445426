"""`sleipnir schedule`: schedulers fire the instants, each once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import TIME_LIMIT_S
from tests.support.services import Fleet
from tests.support.wait import wait_until

GRAPH = """
start: done
nodes: {done: {type: end, output: "at {{scheduled_at}}"}}
"""
FILE = """
schedules:
  tick: {agent: clock, every: 1s, label: {kind: tick}, overlap: allow-all}
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        fleet.sleipnir.write("clock", GRAPH)
        fleet.start_scheduler()
        fleet.start_scheduler()
        fleet.start_worker()
        yield fleet


def test_two_schedulers_fire_each_instant_of_a_file_once(fleet: Fleet, tmp_path: Path) -> None:
    sleipnir, file = fleet.sleipnir, tmp_path / "schedules.yaml"
    file.write_text(FILE)

    refused = sleipnir("schedule", "apply", str(file))
    made = sleipnir("schedule", "apply", str(file), "--yes")
    wait_until(
        lambda: len(sleipnir("ps", "--json", "--label", "kind=tick").stdout.splitlines()) >= 4,
        TIME_LIMIT_S,
    )
    again = sleipnir("schedule", "apply", str(file), "--yes")
    file.write_text("schedules: {}")
    pruned = sleipnir("schedule", "apply", str(file), "--yes", "--prune")
    runs = [
        json.loads(line)
        for line in sleipnir("ps", "--json", "--label", "kind=tick").stdout.splitlines()
    ]

    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    assert (made.returncode, made.stderr) == (0, "create tick\n")
    assert again.stderr == "nothing to change\n"
    assert (pruned.returncode, pruned.stderr) == (0, "delete tick\n")
    at = [run["labels"]["scheduled_at"] for run in runs]
    assert len(set(at)) == len(at)
    assert sleipnir("schedule", "list").stdout == ""


def test_an_empty_value_takes_a_bound_away(fleet: Fleet) -> None:
    sleipnir = fleet.sleipnir
    bounds = ("--end", "2020-01-01T00:00:00Z", "--queue", "slow", "--label", "team=a")

    over = sleipnir("schedule", "create", "once", "clock", "--every", "1h", *bounds)
    sleipnir("schedule", "edit", "once", "--end", "", "--queue", "", "--label", "")
    shown = json.loads(sleipnir("schedule", "show", "once", "--json").stdout)
    sleipnir("schedule", "delete", "once")

    assert over.stderr == "created schedule 'once', which has no more instants\n"
    assert (shown["end"], shown["queue"], shown["labels"]) == (None, None, {})
    assert len(shown["next_at"]) == 5


def test_a_file_with_a_schedule_that_cannot_be_made_changes_nothing(
    fleet: Fleet, tmp_path: Path
) -> None:
    sleipnir = fleet.sleipnir
    file = tmp_path / "schedules.yaml"
    file.write_text(f"{FILE}  other: {{agent: nobody, every: 1h}}\n")

    refused = sleipnir("schedule", "apply", str(file), "--yes")
    known = sleipnir("schedule", "list")

    assert refused.returncode == 2
    assert f"{file}: schedule 'other': no agent named 'nobody'" in refused.stderr
    assert known.stdout == ""
