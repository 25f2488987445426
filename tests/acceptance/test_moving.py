"""The manual's way to another Redis (operating.md), typed in step by step with two real ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.command_line import Sleipnir
from tests.support.pages import blocks
from tests.support.services import Fleet
from tests.support.wait import wait_until

HELLO = "start: z\nnodes:\n  z: {type: end, output: 'hello {{initial_prompt}}'}\n"
ASKS = """
start: ask
nodes:
  ask: {type: input, question: Well?, state_updates: {said: "{{input}}"}, next: z}
  z: {type: end, output: "{{said}}"}
"""
STEPS, RUNS = 6, 3


@pytest.fixture(params=["server", "cluster"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Run the Redis that the runs are moved to."""
    with ExitStack() as stack:
        if request.param == "cluster":
            yield stack.enter_context(Cluster(tmp_path / "new", replicas=False)).url
        else:
            yield stack.enter_context(Fleet(tmp_path / "new")).redis.url


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """The old Redis, with a worker on machine `desk`, and runs."""
    with Fleet(tmp_path / "old") as old:
        old.sleipnir.write("hello", HELLO)
        old.sleipnir.write("asks", ASKS)
        old.start_scheduler()
        old.start_worker(SLEIPNIR_MACHINE="desk")
        yield old


def test_the_manual_moves_to_another_redis(fleet: Fleet, new_url: str) -> None:
    sleipnir, old_url = fleet.sleipnir, fleet.redis.url
    lines = sleipnir.project / "lines.jsonl"
    lines.write_text('"Ada"\n"Bob"\n')
    batched = sleipnir("batch", "hello", str(lines), "--name", "greetings", "--label", "team=a")
    assert batched.returncode == 0, batched.stderr
    asking = sleipnir("submit", "asks").stdout.strip()
    wait_until(lambda: asking in sleipnir("inbox").stdout, "it asks", 60)
    steps = [text for text in blocks("operating.md", "bash") if "$NEW" in text or "$OLD" in text]
    assert len(steps) == STEPS
    steps[2] += f'sleipnir answer {asking} indeed --redis "$OLD"\n'
    steps[2] += f'sleipnir watch {asking} --redis "$OLD"\n'
    sleipnir.environment |= {"OLD": old_url, "NEW": new_url}

    # The new worker may not be ready when doctor looks.
    script = f"set +e\n{steps[0]}set -e\n{''.join(steps[1:])}kill %1 %2; wait"

    done = sleipnir.type_in(script, sleipnir.project)

    assert done.returncode == 0, done.stdout
    for said in ("# Log digest", "indeed", "3 runs were written to moved", "3 runs were imported"):
        assert said in done.stdout
    assert not (sleipnir.project / "moved").exists()
    assert shown(sleipnir, old_url, new_url) == shown(sleipnir, old_url, old_url)


def test_what_cannot_be_moved_is_said(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path)
    (sleipnir.project / "other").mkdir()
    (sleipnir.project / "other" / "file").touch()

    unsaid = sleipnir("export", "--to", "moved")
    full = sleipnir("export", "--all", "--to", "other")
    none = sleipnir("import", "runs", "other")

    assert (unsaid.returncode, "sleipnir export --all --to DIR" in unsaid.stderr) == (2, True)
    assert (full.returncode, "cannot export to other: " in full.stderr) == (1, True), full.stderr
    assert (none.returncode, "cannot import from other: " in none.stderr) == (1, True), none.stderr


def shown(sleipnir: Sleipnir, old_url: str, url: str) -> list[str]:
    """Return what commands say at a Redis of the batch, and of the runs that the old one has."""
    rows = sleipnir("ps", "--json", "--redis", old_url).stdout.splitlines()
    run_ids = [json.loads(row)["run_id"] for row in rows]
    assert len(run_ids) == RUNS
    about = [("show", run_id, "--json") for run_id in run_ids]
    about += [("state", run_id) for run_id in run_ids]
    about += [("ps", "--json", "--batch", "greetings", "--label", "team=a"), ("batches", "--json")]
    told = [sleipnir(*words, "--redis", url).stdout for words in about]
    return [re.sub(r'"age_s": [\d.]+', "", text) for text in told]
