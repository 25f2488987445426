"""Finished runs are exported from one Redis and imported into another, with all that is shown."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from sleipnir.scheduler.client.moving.directory import BatchFile, ExportDirectory
from sleipnir.scheduler.client.moving.exporting import RunExporter, finished_runs
from sleipnir.scheduler.client.moving.importing import RunImporter
from sleipnir.scheduler.errors import RunFileInvalid
from sleipnir.scheduler.process.packing import unpack
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.store.keys import batch_key
from tests.support.archive import archive
from tests.support.engine import Engine
from tests.support.invariants import all_violations
from tests.support.keys import dump
from tests.support.model_server import ModelServer, says

PARENT = """
start: a
nodes:
  a: {type: agent, agent: child, prompt: "{{initial_prompt}}", next: z}
  z: {type: end, output: "{{output}}"}
"""
CHILD = """
start: s
nodes:
  s: {type: llm, model: "openai:m", prompt: "{{initial_prompt}}", next: z}
  z: {type: end, output: "{{output}}"}
"""
FAILS = """
start: s
settings: {tolerate_failures: false}
nodes:
  s: {type: script, script: s.sh, next: z}
  z: {type: end}
"""
TALKER = "{name: talker, model: 'openai:m', description: talks, instructions: Talk.}"
OF_PARTITION = re.compile(r"\{p\d\d\}:|\{[^}]+\}p\d\d:")  # the second one on a cluster
ATTACHED = b"\xff a picture"
# What says when something was done here, or is made anew.
OF_HERE = (
    "archivable",
    "timers",
    "batches",
    "batchends",
    "ended",
    "hours",
    "dearest",
    "spend",
    "labelled",
)
PACKED = ("history", "logs", "transcripts", "failed_transcripts")


@pytest.fixture
def directory(tmp_path: Path) -> ExportDirectory:
    return ExportDirectory(tmp_path / "moved")


def fill(engine: Engine, server: ModelServer) -> dict[str, Status]:
    """Have runs of all kinds end; return all ids, those of child runs too, with their statuses."""
    server.script.add(*(says(f"reply {number}, " * 100) for number in range(3)))
    engine.write("child", CHILD)
    engine.submit(PARENT, prompt="x", labels={"team": "a"})
    engine.drive()
    engine.submit(FAILS, {"s.sh": "echo broken; exit 3"}, batch="nightly", item="1", line=1)
    engine.store.batches.announce("nightly", "tested", 3)
    # What only concerns this engine: events of the batch, and a command that has died.
    engine.store.batches.note_webhook("nightly", "https://ops.example/")
    engine.store.batch_ends.hold("nightly", 15)
    engine.store.batches.add_file("nightly", sha256(ATTACHED).hexdigest(), ATTACHED, 2**20)
    engine.drive()
    engine.submit_normal(TALKER, prompt="hello", session="ours")
    engine.drive()
    engine.client.cancel(engine.submit(PARENT, prompt="never"))
    roots = [*map(engine.run, engine.newest_runs())]
    children = [child for run in roots for child in engine.queries.children(run.run_id)]
    return {run.run_id: run.status for run in (*roots, *children)}


def export(engine: Engine, directory: ExportDirectory) -> Counter[str]:
    directory.begin()
    roots = [run for page in finished_runs(engine.queries) for run in page]
    return Counter(each.outcome for each in RunExporter(engine.client, directory).write(roots))


def read(engine: Engine, directory: ExportDirectory) -> Counter[str]:
    directory.require()
    return Counter(each.outcome for each in RunImporter(engine.client, directory).read())


def stored(engine: Engine) -> dict[str, Any]:
    """Return what Redis has of runs, with packed values unpacked."""
    return {
        key: ([*map(unpack, content)] if key.split(":")[1] in PACKED else content, expires)
        for key, (content, expires) in dump(engine.redis).items()
        if OF_PARTITION.match(key) and key.split(":")[1] not in OF_HERE
    }


def test_everything_that_is_stored_of_runs_is_the_same_elsewhere(
    engine: Engine, server: ModelServer, directory: ExportDirectory
) -> None:
    runs = fill(engine, server)
    before = stored(engine)
    assert export(engine, directory) == {"written": 5}
    engine.redis.flushall()

    found = read(engine, directory)

    assert found == {"imported": 5, "batch": 1}
    assert stored(engine) == before
    assert {run_id: engine.run(run_id).status for run_id in runs} == runs
    assert engine.redis.hgetall(batch_key("nightly")) == {"agent": "tested", "lines": "3"}
    assert engine.store.batches.file("nightly", sha256(ATTACHED).hexdigest()) == ATTACHED
    assert all_violations(engine.redis) == []


def test_what_is_repeated_changes_nothing(
    engine: Engine, server: ModelServer, directory: ExportDirectory
) -> None:
    fill(engine, server)
    export(engine, directory)
    files = {file: file.stat().st_mtime_ns for file in directory.path.glob("runs/**/*.gz")}
    engine.redis.flushall()
    read(engine, directory)
    before = dump(engine.redis)

    assert read(engine, directory) == {"known": 5, "batch": 1}
    assert dump(engine.redis) == before
    assert export(engine, directory) == {"unchanged": 5}
    assert {file: file.stat().st_mtime_ns for file in files} == files


def test_what_was_interrupted_is_continued(
    engine: Engine, server: ModelServer, directory: ExportDirectory
) -> None:
    runs = fill(engine, server)
    directory.begin()
    roots = [run for page in finished_runs(engine.queries) for run in page]
    writing = RunExporter(engine.client, directory).write(roots)
    next(writing)
    writing.close()

    assert export(engine, directory) == {"written": 4, "unchanged": 1}

    engine.redis.flushall()
    reading = RunImporter(engine.client, directory).read()
    next(reading)
    reading.close()
    assert read(engine, directory) == {"known": 1, "imported": 4, "batch": 1}
    assert {run_id: engine.run(run_id).status for run_id in runs} == runs


def test_a_run_that_ended_again_is_written_again(
    engine: Engine, server: ModelServer, directory: ExportDirectory
) -> None:
    run_id = engine.finish(FAILS, {"s.sh": "test -e mended"}).run_id
    export(engine, directory)

    engine.client.retry(run_id)
    assert export(engine, directory) == {}
    engine.drive()

    assert export(engine, directory) == {"written": 1}
    assert len([*directory.run_files()]) == 1


def test_archived_runs_are_taken_along(
    engine: Engine, server: ModelServer, directory: ExportDirectory, tmp_path: Path
) -> None:
    engine.configure(archive=str(tmp_path / "archive"))
    runs = fill(engine, server)
    before = stored(engine)
    archive(engine)
    assert engine.store.archived is not None
    assert engine.store.archived.places([*runs]).keys() == runs.keys()
    export(engine, directory)
    engine.redis.flushall()
    engine.configure()

    read(engine, directory)

    assert stored(engine) == before


def test_open_runs_stay_where_they_are(engine: Engine, directory: ExportDirectory) -> None:
    engine.submit(FAILS, {"s.sh": "echo '{}'"})

    assert export(engine, directory) == {}
    assert [*directory.run_files()] == []


def test_runs_are_kept_as_long_as_if_they_had_ended_here(
    engine: Engine, directory: ExportDirectory
) -> None:
    run_id = engine.finish(FAILS, {"s.sh": "echo '{}'"}).run_id
    export(engine, directory)
    engine.redis.flushall()
    engine.clock.move(engine.store.settings.retention_s - 10)
    read(engine, directory)
    engine.tick()
    assert engine.run(run_id).status == Status.SUCCEEDED

    engine.clock.move(20)
    engine.tick()

    assert engine.newest_runs() == []
    assert read(engine, directory) == {"expired": 1}


def test_imported_runs_can_be_continued(
    engine: Engine, server: ModelServer, directory: ExportDirectory, tmp_path: Path
) -> None:
    mended = tmp_path / "mended"
    failed = engine.finish(FAILS, {"s.sh": f"test -e {mended} && echo '{{}}'"}).run_id
    server.script.add(says("first"), says("second"))
    engine.submit_normal(TALKER, prompt="hello", session="ours")
    engine.drive()
    export(engine, directory)
    engine.redis.flushall()
    read(engine, directory)
    mended.touch()

    engine.client.retry(failed)
    engine.submit_normal(TALKER, prompt="and again", session="ours")
    engine.drive()

    assert engine.run(failed).status == Status.SUCCEEDED
    assert "hello" in json.dumps(server.requests[-1].body)
    assert all_violations(engine.redis) == []


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda run: run.update(version=2), "of version 2"),
        (lambda run: run.update(run_id="../../../etc"), "16 hexadecimal digits"),
        (lambda run: run.update(run_id="00" * 8), "another place"),
        (lambda run: run["record"].update(status="running"), "has not ended"),
        (lambda run: run["record"].update(agent="a\nb"), "not a valid name of the agent"),
        (lambda run: run["record"].update(batch=""), "not a valid name of the batch"),
        (lambda run: run["record"].update(labels='{"a b": "c"}'), "not a valid name of a label"),
        (lambda run: run["record"].update(labels="[]"), "cannot be read"),
        (lambda run: run["record"].update(cost="nan"), "a number that no run can have"),
        (lambda run: run["record"].update(prompt_tokens="1" * 400), "a number that no run can"),
        (lambda run: run["record"].update(ended="9" * 13), "has not ended yet"),
        (lambda run: run["record"].update(created="9" * 15), "is not a whole number"),
        (lambda run: run["record"].update(cost="9e9"), "a number that no run can have"),
        (lambda run: run["record"].update(earlier_ms="9" * 400), "a number that no run can"),
        (lambda run: run["record"].update(history_bytes="x"), "is not a whole number"),
        (lambda run: run["record"].update(context="{}x"), "cannot be read"),
        (lambda run: run["record"].update(context='{"agents": {"a": []}}'), "not a text"),
        (lambda run: run["record"].update(context='{"secrets": [["a"]]}'), "not a text"),
        (lambda run: run["record"].update(context='{"variables": 5}'), "cannot be read"),
        (
            lambda run: run["record"].update(error='{"code": 1, "message": [], "node": ""}'),
            "not a text",
        ),
        (lambda run: run["record"].update(parent="x 1/a"), "cannot be one of it"),
        (lambda run: run["record"].update(session="tested/other"), "a session that cannot be"),
        (lambda run: run["record"].update(archived="../.. 1 9"), "it says that the rest of it is"),
        (lambda run: run["record"].update(digest="../../agent"), "is not a SHA-256 sum"),
        (lambda run: run["record"].update(digest="0" * 64), "cannot read agents/000"),
        (lambda run: run["history"].append({"step": 1}), "cannot be read"),
        (lambda run: run.update(children=["x"]), "cannot be one of it"),
        (lambda run: run.update(children=[run["run_id"]]), "names itself"),
        (lambda run: run.update(failures=[5]), "cannot be read"),
        (lambda run: run["events"].reverse(), "do not grow"),
        (lambda run: run.update(events=[["1", {}]]), "is not a stream"),
    ],
)
def test_a_file_that_is_not_sound_is_refused_and_stores_nothing(
    engine: Engine, directory: ExportDirectory, change: Change, complaint: str
) -> None:
    engine.finish(FAILS, {"s.sh": "echo '{}'"})
    export(engine, directory)
    engine.redis.flushall()
    (file,) = directory.path.glob("runs/**/*.gz")
    document = json.loads(gzip.decompress(file.read_bytes()))
    change(document)
    file.write_bytes(gzip.compress(json.dumps(document).encode()))

    (found,) = RunImporter(engine.client, directory).read()

    assert found.outcome == "refused"
    assert complaint in str(found.reason)
    assert engine.newest_runs() == []


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(lambda: b"", "cut off", id="empty"),
        pytest.param(lambda: b"{}", "not compressed", id="plain"),
        pytest.param(lambda: gzip.compress(b"[" * 100_000), "not JSON", id="nested"),
        pytest.param(lambda: gzip.compress(b"\xff"), "not UTF-8", id="binary"),
        pytest.param(lambda: gzip.compress(b"{}") + b"more", "something follows", id="followed"),
        pytest.param(lambda: gzip.compress(b" " * (2**28 + 1), 1), "more than 256 MiB", id="large"),
    ],
)
def test_what_is_no_run_is_refused(
    engine: Engine, directory: ExportDirectory, content: Callable[[], bytes], complaint: str
) -> None:
    directory.begin()
    file = directory.path / "runs/2026/11/28/0123456789abcdef.json.gz"
    file.parent.mkdir(parents=True)
    file.write_bytes(content())

    (found,) = RunImporter(engine.client, directory).read()

    assert complaint in str(found.reason)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"batch": "a\nb"}, "not a valid name of the batch"),
        ({"batch": 7}, "not the record of a batch"),
        ({"record": {"lines": 3}}, "what no record of a batch has"),
        ({"record": {"removed cost": "many"}}, "what no record of a batch has"),
        ({"record": {"other": "3"}}, "what no record of a batch has"),
        ({"attached": ["../../secret"]}, "are not SHA-256 sums"),
        ({"attached": ["0" * 64]}, "cannot read attached/000"),
    ],
)
def test_the_record_of_a_batch_that_is_not_sound_is_refused(
    engine: Engine, directory: ExportDirectory, changed: dict[str, Any], complaint: str
) -> None:
    directory.begin()
    directory.write_batch(BatchFile("nightly", {"lines": "3"}, ()))
    (file,) = directory.path.glob("batches/*")
    file.write_text(json.dumps(json.loads(file.read_text()) | changed))

    (found,) = RunImporter(engine.client, directory).read()

    assert complaint in str(found.reason)
    assert engine.store.batches.record("nightly") == {}


def test_an_agent_that_was_changed_is_refused(engine: Engine, directory: ExportDirectory) -> None:
    engine.finish(FAILS, {"s.sh": "echo '{}'"})
    export(engine, directory)
    engine.redis.flushall()
    (agent,) = directory.path.glob("agents/*")
    agent.write_bytes(agent.read_bytes() + b"x")

    (found,) = RunImporter(engine.client, directory).read()

    assert "has another SHA-256 than its name says" in str(found.reason)
    assert engine.store.bundles.get(agent.name) is None


@pytest.mark.parametrize(
    ("manifest", "complaint"),
    [
        (None, "cannot read export.json"),
        ("{", "not JSON"),
        ('{"format": "another"}', "did not make it"),
        ('{"format": "sleipnir-export", "version": 2}', "upgrade this one"),
    ],
)
def test_a_directory_that_is_no_export_is_refused(
    directory: ExportDirectory, manifest: str | None, complaint: str
) -> None:
    directory.path.mkdir()
    (directory.path / "other").touch()
    if manifest is not None:
        (directory.path / "export.json").write_text(manifest)

    for use in (directory.begin, directory.require):
        with pytest.raises(RunFileInvalid, match=complaint):
            use()
