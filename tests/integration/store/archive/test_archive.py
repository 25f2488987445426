"""Archived runs: what they show, and what brings them back, is as before."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sleipnir.scheduler.errors import ArchiveFailed
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS, partition_of
from sleipnir.scheduler.runs.model import Run, Status
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.service.archiving.archiver import Archiver
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views import run as views
from sleipnir.scheduler.views.runs import runs_page
from tests.support.archive import AFTER_S, PLAIN, archive, broken_run
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.keys import dump
from tests.support.model_server import ModelServer, says

HELPER = """
start: s
settings: {tolerate_failures: false}
nodes:
  s: {type: script, script: s.sh, next: z}
  z: {type: end}
"""
PARENT = """
start: a
settings: {tolerate_failures: false}
nodes:
  a: {type: agent, agent: helper, prompt: "-", next: z}
  z: {type: end}
"""


@pytest.fixture
def home(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An engine whose runs go to a directory an hour after their end."""
    monkeypatch.setenv("SLEIPNIR_DATA_DIR", str(tmp_path / "data"))
    engine.configure(archive=str(tmp_path / "archive"))
    return tmp_path / "archive"


def everything(engine: Engine, run_id: str) -> dict[str, Any]:
    """Return all that is told of a run, but for how long ago things were."""
    client, queries = (
        engine.client,
        RunQueries(engine.redis, engine.store.clock, engine.store.archived),
    )
    run = queries.run(run_id)
    return {
        "run": run,
        "headline": views.headline_document(client, run),
        "state": queries.state(run_id),
        "history": queries.history(run_id),
        "steps": queries.steps(run_id),
        "first": [*queries.checkpoints(run_id, 1)],
        "events": [*queries.follow(run_id, block=False)],
        "latest": queries.latest(run_id, None, 3),
        "newest": queries.newest_entry(run_id),
        "logs": queries.logs(run_id),
        "part": queries.log_part(run_id, 1),
        "transcripts": queries.transcripts(run_id),
        "failures": queries.failures(run),
        "items": queries.map_items(run, "each"),
        "sizes": queries.part_sizes(run_id),
        "visits": queries.step_visits(run),
        "children": queries.children(run_id),
    }


def test_a_run_shows_the_same_when_it_is_archived(
    engine: Engine, server: ModelServer, tmp_path: Path, home: Path
) -> None:
    run_id = broken_run(engine, server, tmp_path / "mended")
    engine.clock.move(AFTER_S)
    before = everything(engine, run_id)

    done = archive(engine, after_s=0)

    assert (done.archived, done.failed) == (1, 0)
    assert everything(engine, run_id) == before
    kept = {key.split(":")[1] for key in dump(engine.redis) if key.endswith(run_id)}
    assert kept == {"run"}
    assert [file.name for file in home.rglob("*.gz")] == [f"{run_id}.json.gz"]
    assert_consistent(engine.redis, runs=1)


def test_nothing_is_archived_before_its_time(engine: Engine, home: Path) -> None:
    engine.finish(PLAIN, prompt="Ada")

    assert archive(engine, after_s=AFTER_S - 1).archived == 0
    assert archive(engine, after_s=1).archived == 1


def test_lists_need_no_archive_and_details_say_that_it_is_away(engine: Engine, home: Path) -> None:
    run = engine.finish(PLAIN, prompt="Ada and a friend")
    shown = runs_page(engine.client, RunFilter(), limit=10)
    archive(engine)
    home.rename(home.with_name("away"))

    (row,) = runs_page(engine.client, RunFilter(text="friend"), limit=10)["runs"]

    assert {**row, "age_s": 0} == {**shown["runs"][0], "age_s": 0}
    with pytest.raises(
        ArchiveFailed, match=rf"run {run.run_id} is archived .*{home} \(archive\) has no runs/"
    ):
        engine.client.queries.run(run.run_id)


def test_without_the_setting_a_run_says_where_it_went(engine: Engine, home: Path) -> None:
    run = engine.finish(PLAIN, prompt="Ada")
    archive(engine)
    engine.configure(archive=None)

    with pytest.raises(ArchiveFailed, match="set it to the directory or URL"):
        engine.client.queries.run(run.run_id)


def test_what_was_read_is_read_from_this_machine(engine: Engine, home: Path) -> None:
    run = engine.finish(PLAIN, prompt="Ada")
    archive(engine)
    assert engine.client.queries.run(run.run_id).output == "Hello Ada"
    shutil.rmtree(home)
    engine.configure(archive=str(home))

    assert engine.client.queries.run(run.run_id).output == "Hello Ada"


def test_what_was_damaged_is_not_shown(engine: Engine, home: Path) -> None:
    run = engine.finish(PLAIN, prompt="Ada")
    archive(engine)
    (file,) = home.rglob("*.gz")
    data = bytearray(file.read_bytes())
    data[-9] ^= 1
    file.write_bytes(bytes(data))

    with pytest.raises(ArchiveFailed, match="is damaged"):
        engine.client.queries.run(run.run_id)


def moved(engine: Engine, run: Run) -> None:
    engine.store.runs.move(run.run_id, "shed")


def told(engine: Engine, run: Run) -> None:
    engine.store.runs.append_logs(run.run_id, ['{"text":"late"}'])


@pytest.mark.parametrize("touch", [moved, told])
def test_a_run_that_was_touched_since_it_was_read_stays(
    engine: Engine, home: Path, touch: Callable[[Engine, Run], None]
) -> None:
    run = engine.finish(PLAIN, prompt="Ada")
    (read,) = engine.store.whole_runs.read([run.run_id])
    assert read is not None
    assert engine.store.archive is not None
    at = engine.store.archive.put(read.whole, "2026/01/01")
    touch(engine, run)
    before = dump(engine.redis)

    assert engine.store.whole_runs.archive([(read, at)]) == set()

    assert dump(engine.redis) == before


@pytest.mark.parametrize("touch", [moved, told])
def test_what_comes_too_late_leaves_nothing_behind(
    engine: Engine, home: Path, touch: Callable[[Engine, Run], None]
) -> None:
    run = engine.finish(PLAIN, prompt="Ada")
    archive(engine)

    touch(engine, run)

    kept = {key.split(":")[1] for key in dump(engine.redis) if key.endswith(run.run_id)}
    assert kept == {"run"}


def test_removing_an_archived_run_takes_it_out_of_all_lists(engine: Engine, home: Path) -> None:
    run = engine.finish(PLAIN, prompt="Ada")
    archive(engine)
    engine.clock.move(engine.store.settings.retention_s)

    engine.tick()

    assert engine.newest_runs() == []
    assert not engine.redis.exists(f"{partition_of(run.run_id)}:archivable")
    assert_consistent(engine.redis, runs=0)
    assert [*home.rglob("*.gz")]


def test_a_retry_brings_the_run_back_and_goes_on(
    engine: Engine, server: ModelServer, tmp_path: Path, home: Path
) -> None:
    mended = tmp_path / "mended"
    run_id = broken_run(engine, server, mended)
    archive(engine)
    mended.touch()

    engine.client.retry(run_id)
    engine.drive()

    run = engine.client.queries.run(run_id)
    assert (run.status, run.tries) == (Status.SUCCEEDED, 2)
    assert len(server.requests) == 1
    assert len(engine.queries.transcripts(run_id)) == 1
    assert_consistent(engine.redis, runs=1)
    archive(engine)
    assert len([*home.rglob("*.gz")]) == 2  # what was there is never overwritten
    assert engine.client.queries.run(run_id) == run


def test_what_a_run_has_started_goes_and_comes_with_it(engine: Engine, home: Path) -> None:
    engine.write("helper", HELPER, {"s.sh": "exit 3"})
    run = engine.finish(PARENT)
    before = engine.client.queries.children(run.run_id)

    assert archive(engine).archived == 2

    assert engine.client.queries.children(run.run_id) == before
    assert len({file.parent for file in home.rglob("*.gz")}) == 1
    engine.client.retry(run.run_id)
    assert engine.run(before[0].run_id).tries == 2
    engine.drive()
    assert_consistent(engine.redis, runs=2)


def test_a_fork_of_an_archived_run_leaves_it_where_it_is(engine: Engine, home: Path) -> None:
    run = engine.finish(PLAIN, prompt="Ada")
    archive(engine)

    fork = engine.client.fork(run.run_id)
    engine.drive()

    assert engine.run(fork.run_id).output == "Hello Ada"
    assert "archived" in engine.redis.hgetall(run_key("run", run.run_id))
    assert_consistent(engine.redis, runs=2)


def test_runs_that_ended_before_there_was_an_archive_go_there(
    engine: Engine, tmp_path: Path
) -> None:
    runs = [engine.finish(PLAIN, prompt=f"Ada {number}") for number in range(5)]
    engine.submit(PLAIN, prompt="not over")
    engine.configure(archive=str(tmp_path / "archive"))
    assert archive(engine).archived == 0
    assert engine.store.archive is not None
    archiver = Archiver(engine.store, engine.store.archive)

    while archiver.adopt(ALL_PARTITIONS):
        pass

    assert archive(engine, after_s=0).archived == len(runs)


SECRET = "s3cr3t-t0k3n-value"
WITH_SECRET = """
start: s
settings: {tolerate_failures: false}
variables: [{name: token, description: a secret, secret: true}]
nodes:
  s: {type: script, script: s.sh, next: z}
  z: {type: end, output: ok}
"""


def test_values_of_secret_variables_stay_in_redis(
    engine: Engine, tmp_path: Path, home: Path
) -> None:
    mended = tmp_path / "mended"
    files = {"s.sh": f"test -e {mended} && test $LLM_AGENT_VAR_TOKEN = {SECRET} && echo '{{}}'"}
    run = engine.finish(WITH_SECRET, files, variables={"token": SECRET})
    archive(engine)

    (file,) = home.rglob("*.gz")
    assert SECRET.encode() not in gzip.decompress(file.read_bytes())
    assert engine.client.queries.run(run.run_id) == run
    mended.touch()
    engine.client.retry(run.run_id)
    engine.drive()
    assert engine.run(run.run_id).status == Status.SUCCEEDED


def test_a_conversation_goes_on_after_an_archived_run(
    engine: Engine, server: ModelServer, home: Path
) -> None:
    server.script.add(says("Hello."), says("Hello again."))
    engine.submit_normal("model: openai:m\ninstructions: Talk.\n", session="ada", prompt="Hi!")
    engine.drive()
    archive(engine)

    second = engine.client.submit("talker", Request(session="ada", prompt="And again!"))
    engine.drive()

    assert engine.run(second).output == "Hello again."
    said = [message["content"] for message in server.requests[-1].body["messages"]]
    assert said[-3:] == ["Hi!", "Hello.", "And again!"]
    assert_consistent(engine.redis, runs=2)
