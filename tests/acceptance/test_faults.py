"""Processes die at any instant; every run goes on, and each node's effect counts once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.support.command_line import TIME_LIMIT_S, Sleipnir
from tests.support.processes import children_of, is_alive
from tests.support.services import SHORT_LEASE, Fleet, Tries
from tests.support.wait import wait_until

COUNTING = """
initial_state: {effects: 0}
reducers: {effects: sum}
start: work
nodes:
  work: {type: script, script: work.py, next: done}
  done: {type: end, output: "{{effects}}"}
"""
# Its first try lasts as long as its worker.
WORK = """
import json, os, pathlib, time
worker = os.getppid()
tries = pathlib.Path("tries")
first = not tries.exists()
with tries.open("a") as file:
    file.write(f"{worker} {os.environ['SLEIPNIR_IDEMPOTENCY_KEY']}\\n")
while first and os.getppid() == worker:
    time.sleep(0.01)
print(json.dumps({"effects": 1}))
"""
GATED = """
start: work
nodes:
  work: {type: script, script: work.sh, next: done}
  done: {type: end, output: "{{initial_prompt}} is done"}
"""
WAIT = """
echo "$PPID $SLEIPNIR_IDEMPOTENCY_KEY" >> tries
until test -e go; do sleep 0.01; done
echo '{}'
"""
POISON = """
echo "$PPID $SLEIPNIR_IDEMPOTENCY_KEY" >> tries
kill -KILL $PPID
"""
SHORT = """
echo "$PPID $SLEIPNIR_IDEMPOTENCY_KEY" >> tries
sleep 0.1
echo '{}'
"""
# Its first try never ends, nor does what it starts in a session of its own.
FAMILY = """
echo "$PPID $SLEIPNIR_IDEMPOTENCY_KEY" >> tries
test -e family && { echo '{}'; exit; }
setsid sleep 1000 > /dev/null 2>&1 &
echo "$$ $!" > family.new
mv family.new family
sleep 1000
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Redis, a scheduler, a worker, and the agents of these tests."""
    with Fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        fleet.sleipnir.write("counting", COUNTING, {"work.py": WORK})
        fleet.sleipnir.write("gated", GATED, {"work.sh": WAIT})
        fleet.sleipnir.write("poison", GATED, {"work.sh": POISON})
        fleet.sleipnir.write("short", GATED, {"work.sh": SHORT})
        fleet.sleipnir.write("family", GATED, {"work.sh": FAMILY})
        fleet.start_scheduler()
        fleet.start_worker()
        yield fleet


@pytest.fixture
def tries(tmp_path: Path) -> Tries:
    return Tries(tmp_path / "workdir")


def document(process: subprocess.Popen[str]) -> Any:
    """What `run --json` prints at its end."""
    printed, said = process.communicate(timeout=TIME_LIMIT_S)
    assert printed, said
    return json.loads(printed)


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_node_whose_worker_is_killed_runs_again_and_counts_once(
    fleet: Fleet, tries: Tries
) -> None:
    run = fleet.sleipnir.start("run", "counting", "--json", "--workdir", str(tries.directory))
    tries.wait_for()

    tries.kill_worker()
    found = document(run)

    assert (found["status"], found["output"], found["steps"]) == ("succeeded", "1", 2)
    first, second = tries.keys()
    assert first == second
    nodes = fleet.sleipnir.json("show", found["run_id"])["nodes"]
    assert {node["id"]: node["visits"] for node in nodes} == {"work": 1, "done": 1}


def test_programs_do_not_outlive_a_killed_worker(fleet: Fleet, tries: Tries) -> None:
    run = fleet.sleipnir.start("run", "family", "--json", "--workdir", str(tries.directory))
    family = tries.directory / "family"
    wait_until(family.exists, "the script has started another", TIME_LIMIT_S)
    programs = [int(pid) for pid in family.read_text().split()]
    alive_before = [is_alive(pid) for pid in programs]

    tries.kill_worker()

    assert alive_before == [True, True]
    wait_until(lambda: not any(map(is_alive, programs)), "both have ended", TIME_LIMIT_S)
    assert document(run)["status"] == "succeeded"


def test_a_killed_scheduler_is_replaced_by_another(fleet: Fleet, tries: Tries) -> None:
    owner = owner_of_a_partition(fleet)
    fleet.start_scheduler()
    run = fleet.sleipnir.start("run", "counting", "--json", "--workdir", str(tries.directory))
    tries.wait_for()

    fleet.schedulers[0].kill()
    tries.kill_worker()

    assert document(run)["output"] == "1"
    assert len(tries.keys()) == 2
    assert owner_of_a_partition(fleet) != owner


def test_runs_outlast_a_killed_redis_and_so_do_workers(fleet: Fleet, tries: Tries) -> None:
    workers = children_of(fleet.workers[0].pid)
    batch = fleet.sleipnir.start("batch", "gated", *eight_lines(tries), "--ordered")
    tries.wait_for(8)

    fleet.redis.kill()
    tries.let_go()
    fleet.redis.start()
    printed, said = batch.communicate(timeout=TIME_LIMIT_S)

    assert batch.returncode == 0, said
    assert [result["output"] for result in lines_of(printed)] == [f"{n} is done" for n in range(8)]
    assert children_of(fleet.workers[0].pid) == workers


def test_a_run_outlives_the_command_that_started_it(fleet: Fleet, tries: Tries) -> None:
    run = fleet.sleipnir.start("run", "gated", "it", "--workdir", str(tries.directory))
    tries.wait_for()
    run_id = tries.keys()[0].split(":")[0]

    kill(run)
    tries.let_go()
    watched = fleet.sleipnir("watch", run_id)

    assert (watched.returncode, watched.stdout) == (0, "it is done\n")


def test_a_run_goes_on_when_the_next_command_starts_the_engine_again(
    tmp_path: Path, tries: Tries
) -> None:
    sleipnir = Sleipnir(tmp_path)
    sleipnir.write("gated", GATED, {"work.sh": WAIT})
    run = sleipnir.start("run", "gated", "it", "--workdir", str(tries.directory))
    tries.wait_for()
    run_id = tries.keys()[0].split(":")[0]

    kill(run)
    tries.let_go()
    watched = sleipnir("watch", run_id)

    assert (watched.returncode, watched.stdout) == (0, "it is done\n")


def test_a_node_that_kills_its_workers_is_given_up_and_others_are_not(
    fleet: Fleet, tries: Tries
) -> None:
    run = fleet.sleipnir.start("run", "poison", "--json", "--workdir", str(tries.directory))
    # From here on it kills no more workers, only processes of its own.
    tries.wait_for(2)

    others = fleet.sleipnir("batch", "short", *eight_lines(tries))
    found = document(run)

    assert run.returncode == 1
    assert found["error"] == {
        "code": "R022",
        "message": "node 'work' killed its isolated process twice in a row: "
        "killed by signal 9 (SIGKILL)",
        "node": "work",
        "caused_by": [],
    }
    # Two workers and two processes; a lease that ends on a busy machine makes one more or less.
    assert 3 <= tries.keys().count(f"{found['run_id']}:1/work") <= 6
    assert others.returncode == 0
    assert {result["status"] for result in lines_of(others.stdout)} == {"succeeded"}


def test_a_batch_loses_and_repeats_no_line_while_workers_are_killed(
    tmp_path: Path, tries: Tries
) -> None:
    rng = seeded()
    results = tmp_path / "results.jsonl"
    batch = batch_of(120, tmp_path, tries, results)

    for count in sorted(rng.sample(range(10, 80), 3)):
        wait_for_results(results, count)
        kill_one(tries, rng)
        assert finished(results) < 120
    _, said = batch.communicate(timeout=TIME_LIMIT_S)

    assert batch.returncode == 0, said
    assert_each_line_succeeded_once(results, 120)
    assert len(tries.keys()) > 120, "no kill hit a node"


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_a_long_batch_survives_a_kill_every_two_seconds(tmp_path: Path, tries: Tries) -> None:
    rng, kills = seeded(), 0
    results = tmp_path / "results.jsonl"
    batch = batch_of(1500, tmp_path, tries, results)
    tries.wait_for()

    while not ended_within(batch, 2):
        # Without waiting for one: the last visit would be hit as it begins, again and again.
        if workers := at_work(tries):
            os.kill(rng.choice(workers), signal.SIGKILL)
            kills += 1

    assert batch.returncode == 0
    assert kills >= 3
    assert_each_line_succeeded_once(results, 1500)


def eight_lines(tries: Tries) -> tuple[str, ...]:
    """The arguments of a batch whose prompts are numbers."""
    file = tries.directory / "in.txt"
    file.write_text("".join(f"{number}\n" for number in range(8)))
    return (str(file), "--workdir", str(tries.directory), "--name", str(tries.directory))


def owner_of_a_partition(fleet: Fleet) -> object:
    """The token of the scheduler that looks after partition 0."""
    with redis.Redis.from_url(fleet.redis.url) as client:
        return wait_until(lambda: client.get("{p00}:owner"), "somebody owns the partition")


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def seeded() -> random.Random:
    """Chance that a failing test tells how to repeat."""
    seed = int(os.environ.get("SEED") or random.randrange(10**6))
    print(f"SEED={seed}")  # noqa: T201 - pytest shows it with a failure
    return random.Random(seed)


def batch_of(lines: int, directory: Path, tries: Tries, results: Path) -> subprocess.Popen[str]:
    """Start a batch of short scripts on an embedded engine of its own."""
    sleipnir = Sleipnir(directory / "embedded")
    sleipnir.environment |= {
        **SHORT_LEASE,
        "SLEIPNIR_WORKERS": "2",
        "SLEIPNIR_CONCURRENCY": "8",
        # Here every kill hits whatever runs: none of that is a poison node.
        "SLEIPNIR_MAX_DELIVERIES": "100",
    }
    sleipnir.write("short", GATED, {"work.sh": SHORT})
    file = directory / "in.txt"
    file.write_text("".join(f"line {number}\n" for number in range(lines)))
    workdir = str(tries.directory)
    return sleipnir.start("batch", "short", str(file), "-o", str(results), "--workdir", workdir)


def finished(results: Path) -> int:
    return results.read_text().count("\n") if results.exists() else 0


def wait_for_results(results: Path, count: int) -> None:
    wait_until(lambda: finished(results) >= count, f"{count} results", TIME_LIMIT_S)


def at_work(tries: Tries) -> list[int]:
    """The workers that have most recently begun something and are still there."""
    return sorted({worker for worker in tries.workers()[-10:] if is_alive(worker)})


def kill_one(tries: Tries, rng: random.Random) -> None:
    """Kill a worker as soon as there is one."""
    alive = wait_until(lambda: at_work(tries), "a worker is at work", TIME_LIMIT_S)
    os.kill(rng.choice(alive), signal.SIGKILL)


def ended_within(process: subprocess.Popen[str], seconds: float) -> bool:
    try:
        process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def assert_each_line_succeeded_once(results: Path, lines: int) -> None:
    found = lines_of(results.read_text())
    assert {result["status"] for result in found} == {"succeeded"}
    assert sorted(result["line"] for result in found) == list(range(1, lines + 1))
    assert len({result["run_id"] for result in found}) == lines
