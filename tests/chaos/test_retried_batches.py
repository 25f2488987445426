"""Failed lines of a batch go on while workers and schedulers are killed."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest
import redis

from tests.support.command_line import Sleipnir
from tests.support.fleet import Fleet, under_fire
from tests.support.invariants import assert_consistent
from tests.support.redis_server import RedisServer
from tests.support.workers import Workers

GRAPH = """
start: a
settings: {tolerate_failures: false}
nodes:
  a: {type: script, script: a.sh, next: b}
  b: {type: input, question: "?", next: c, state_updates: {said: "{{input}}"}}
  c: {type: script, script: c.sh, next: done}
  done: {type: end, output: "{{initial_prompt}} {{said}}"}
"""
NOTED = '#!/bin/sh\necho "$SLEIPNIR_RUN_ID" >> DIRECTORY/ran\necho "{}"\n'
BROKEN = "#!/bin/sh\n[ -e DIRECTORY/mended ] || { echo broken >&2; exit 1; }\necho '{}'\n"


@pytest.mark.chaos
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("count", [1000])
def test_each_line_has_one_result_whoever_dies(
    count: int,
    workers: Workers,
    redis_client: redis.Redis,
    redis_server: RedisServer,
    tmp_path: Path,
    rng: random.Random,
) -> None:
    command = Sleipnir(tmp_path / "command", SLEIPNIR_REDIS_URL=redis_server.url)
    scripts = {"a.sh": NOTED, "c.sh": BROKEN}
    command.write(
        "line", GRAPH, {name: s.replace("DIRECTORY", str(tmp_path)) for name, s in scripts.items()}
    )
    lines = [
        json.dumps({"id": f"l{n}", "prompt": f"p{n}", "answers": {"b": ["yes"]}})
        for n in range(count)
    ]
    (tmp_path / "lines.jsonl").write_text("\n".join(lines))
    results = tmp_path / "results.jsonl"
    call = ("batch", "line", str(tmp_path / "lines.jsonl"), "-o", str(results), "--name", "b")
    fleet = Fleet(workers, rng, 2)
    schedulers = [workers.start_scheduler()]
    first = command.start(*call, "-q")
    first.communicate(timeout=600)
    assert first.returncode == 1
    ran = Counter((tmp_path / "ran").read_text().split())
    (tmp_path / "mended").touch()

    def kill_scheduler() -> None:
        schedulers.pop().kill()
        schedulers.append(workers.start_scheduler())

    again = command.start(*call, "--retry-failed", "-q")
    faults = [fleet.kill_one, fleet.kill_one, kill_scheduler]
    under_fire(lambda: again.poll() is not None, faults, every_s=2, at_least=3, timeout_s=900)

    _, said = again.communicate(timeout=60)
    assert again.returncode == 0, said
    told = [json.loads(line) for line in results.read_text("utf-8").splitlines()]
    succeeded = Counter(each["id"] for each in told if each["status"] == "succeeded")
    assert succeeded == {f"l{n}": 1 for n in range(count)}
    assert {each["output"] for each in told if each["status"] == "succeeded"} == {
        f"p{n} yes" for n in range(count)
    }
    assert len(ran) == count
    # Nothing that was done is done again.
    assert Counter((tmp_path / "ran").read_text().split()) == ran
    assert_consistent(redis_client, runs=count)
