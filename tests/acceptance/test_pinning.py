"""Runs that work on the files of one machine stay on it; all others go anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from sleipnir.scheduler.store.keys import machine_key, run_key
from tests.support.command_line import TIME_LIMIT_S, Sleipnir
from tests.support.proxy import Proxy
from tests.support.services import Fleet

GRAPH = """
initial_state: {items: [1, 2, 3, 4]}
start: first
nodes:
  first: {type: script, script: where.sh, next: each}
  each: {type: map, over: "{{items}}", as: item, branch: one, collect_into: others, next: done}
  one: {type: script, script: where.sh}
  done: {type: end, output: "{{output}} {{others}}"}
"""
WHERE = """
sleep 0.05
echo "{\\"output\\": \\"$HERE\\"}"
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two machines, `desk` and `shed`, with a worker each, and the way to Redis over TCP."""
    with (
        Fleet(tmp_path_factory.mktemp("machines")) as fleet,
        Proxy(fleet.redis.socket_file) as network,
    ):
        fleet.sleipnir.environment |= {
            "SLEIPNIR_REDIS_URL": network.url,
            "SLEIPNIR_CONCURRENCY": "1",
            "SLEIPNIR_TOOL_ENV": "HERE",
        }
        fleet.sleipnir.write("where", GRAPH, {"where.sh": WHERE})
        fleet.start_scheduler()
        for machine in ("desk", "shed"):
            start_worker(fleet, machine)
        yield fleet


@pytest.fixture
def sleipnir(fleet: Fleet) -> Sleipnir:
    return fleet.sleipnir


def start_worker(fleet: Fleet, machine: str) -> None:
    fleet.start_worker(SLEIPNIR_MACHINE=machine, HERE=machine)


def lines_of(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("machine", ["desk", "shed"])
def test_what_is_run_on_a_machine_is_done_by_its_worker(sleipnir: Sleipnir, machine: str) -> None:
    done = sleipnir("run", "where", SLEIPNIR_MACHINE=machine)

    assert done.stdout == f"{machine} {json.dumps([machine] * 4, separators=(',', ':'))}\n"


def test_what_is_submitted_for_a_directory_is_too(sleipnir: Sleipnir) -> None:
    here = ("--workdir", str(sleipnir.project))

    submitted = [sleipnir("submit", "where", *here, SLEIPNIR_MACHINE="shed") for _ in range(2)]

    for run in submitted:
        assert "desk" not in sleipnir("watch", run.stdout.strip()).stdout


def test_a_batch_goes_anywhere(sleipnir: Sleipnir, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"{number}\n" for number in range(8)))

    done = sleipnir("batch", "where", str(file), SLEIPNIR_MACHINE="desk")

    outputs = "".join(str(result["output"]) for result in lines_of(done.stdout))
    assert done.returncode == 0
    assert "desk" in outputs
    assert "shed" in outputs


def test_a_machine_without_a_worker_keeps_nothing_to_itself(sleipnir: Sleipnir) -> None:
    done = sleipnir("run", "where", SLEIPNIR_MACHINE="attic")

    assert done.returncode == 0
    assert "attic" not in done.stdout


def test_a_run_waits_for_the_worker_of_its_machine(
    fleet: Fleet, sleipnir: Sleipnir, tmp_path: Path
) -> None:
    start_worker(fleet, "cellar")
    fleet.workers[-1].kill()
    here = ("--workdir", str(tmp_path))
    run_id = sleipnir("submit", "where", *here, SLEIPNIR_MACHINE="cellar").stdout.strip()
    with redis.Redis.from_url(fleet.redis.url) as client:
        client.delete(machine_key("cellar"))  # as it is gone by itself after some seconds

    listed = sleipnir("ps", "--status", "queued").stdout
    documents = lines_of(sleipnir("ps", "--status", "queued", "--json").stdout)
    watching = sleipnir.start("watch", run_id)
    assert watching.stderr is not None
    explanation = next(line for line in watching.stderr if not line.startswith("▸"))
    start_worker(fleet, "cellar")
    printed, _ = watching.communicate(timeout=TIME_LIMIT_S)

    assert f"{run_id}  where  queued  first (no worker on cellar)" in listed
    assert [each["waits_for"] for each in documents] == ["no worker on cellar"]
    assert "queued for cellar, whose files it needs: start a worker there" in explanation
    assert printed == 'cellar ["cellar","cellar","cellar","cellar"]\n'


def test_a_run_is_moved_off_a_machine_without_a_worker(
    fleet: Fleet, sleipnir: Sleipnir, tmp_path: Path
) -> None:
    start_worker(fleet, "barn")
    fleet.workers[-1].kill()
    here = ("--workdir", str(tmp_path))
    moved, retried = (
        sleipnir("submit", "where", *here, SLEIPNIR_MACHINE="barn").stdout.strip() for _ in range(2)
    )
    sleipnir("cancel", retried)

    mistyped = sleipnir("move", moved, "--machine", "desc")
    told = sleipnir("move", moved, "--machine", "desk")
    again = sleipnir("retry", retried, "--machine", "any")

    assert mistyped.returncode == 1
    assert "no worker is running on machine 'desc'; workers are on: " in mistyped.stderr
    assert f"moved run {moved} to desk" in told.stderr
    assert sleipnir("watch", moved).stdout == 'desk ["desk","desk","desk","desk"]\n'
    assert again.returncode == 0
    assert "barn" not in sleipnir("watch", retried).stdout
    assert "▸ moved to any machine" in sleipnir("watch", retried).stderr


def test_runs_are_pinned_unless_told_otherwise(fleet: Fleet, sleipnir: Sleipnir) -> None:
    def machine(*flags: str, **environment: str) -> object:
        sleipnir("run", "where", *flags, SLEIPNIR_MACHINE="desk", **environment)
        run_id = sleipnir.json("ps", "--all", "--limit", "1")["run_id"]
        with redis.Redis.from_url(fleet.redis.url, decode_responses=True) as client:
            return client.hget(run_key("run", run_id), "machine")

    assert machine() == "desk"
    assert machine("--no-pin") is None
    assert machine(SLEIPNIR_PIN="never") is None
    assert machine("--pin", SLEIPNIR_PIN="never") == "desk"
