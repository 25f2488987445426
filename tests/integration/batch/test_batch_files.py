"""`batch --attach`: files of lines, stored with the batch, so that workers need no shared disk."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sleipnir.scheduler.batch.drive import Batch
from sleipnir.scheduler.batch.files import Attach
from sleipnir.scheduler.batch.intake import Intake, load_input
from sleipnir.scheduler.batch.ledger import Ledger
from sleipnir.scheduler.batch.options import BatchOptions
from sleipnir.scheduler.client import removal
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.recording import written
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.keys import batch_files_key
from tests.support.command_line import Sleipnir
from tests.support.engine import Engine
from tests.support.media import PNG, data_url, pdf
from tests.support.model_server import ModelServer, says
from tests.support.redis_server import RedisServer
from tests.support.workers import Workers

READ = """
model: openai:m
initial_state: {scan: []}
start: read
nodes:
  read:
    type: llm
    prompt: Read.
    attach: ["{{scan}}"]
    state_updates: {said: "{{output}}"}
    next: done
  done: {type: end, output: "{{said}}"}
"""
KEY = batch_files_key("scans")
NO_DEFAULTS = Request()


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger() as opened:
        yield opened


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where the input is, with its files."""
    made = tmp_path / "input"
    made.mkdir()
    for number in range(5):
        (made / f"{number}.png").write_bytes(PNG + bytes([number]))
    (made / "copy.png").write_bytes(PNG + bytes([0]))
    (made / "note.png").write_text("a note")
    return made


def load(ledger: Ledger, directory: Path, scans: list[Any], most: int = 1 << 20) -> Intake:
    attach = Attach(("scan",), directory, ledger.files, 1_000, most)
    text = "".join(json.dumps({"state": {"scan": scan}}) + "\n" for scan in scans)
    return load_input(
        ledger, io.StringIO(text), "jsonl", lambda _: None, Request(), 10_000, attach=attach
    )


def submit(engine: Engine, ledger: Ledger, defaults: Request = NO_DEFAULTS) -> None:
    engine.write("read", READ)
    options = BatchOptions("scans", max_in_flight=1_000, files=ledger.files, defaults=defaults)
    Batch(engine.client, engine.client.prepare("read"), ledger, options).submit_all()


def blob(data: bytes) -> str:
    return f"blob:{hashlib.sha256(data).hexdigest()}"


def test_each_content_is_stored_once_and_a_worker_elsewhere_sends_it(
    engine: Engine, server: ModelServer, ledger: Ledger, directory: Path
) -> None:
    server.when("Read", says("read"))
    scans = [f"{number % 5}.png" for number in range(40)]
    intake = load(ledger, directory, [*scans, ["copy.png", "", data_url(PNG, "image/png")]])

    submit(engine, ledger)
    shutil.rmtree(directory)
    engine.drive()

    assert intake.bad == []
    assert set(engine.redis.hkeys(KEY)) == {
        "bytes",
        *(hashlib.sha256(PNG + bytes([number])).hexdigest() for number in range(5)),
    }
    assert int(engine.redis.hget(KEY, "bytes")) == 5 * (len(PNG) + 1)
    runs = engine.queries.runs(engine.newest_runs())
    assert [run.output for run in runs if run] == ["read"] * 41
    first = next(run for run in runs if run and run.line == 1)
    assert engine.state(first.run_id)["scan"] == blob(PNG + bytes([0]))
    urls = {request.messages[0]["content"][0]["image_url"]["url"] for request in server.requests}
    assert urls == {data_url(PNG + bytes([number]), "image/png") for number in range(5)}


def test_they_reach_a_worker_process_that_has_no_disk_in_common(
    workers: Workers,
    redis_server: RedisServer,
    server: ModelServer,
    directory: Path,
    tmp_path: Path,
) -> None:
    server.when("Read", says("read"))
    there = Sleipnir(tmp_path / "there", SLEIPNIR_REDIS_URL=redis_server.url)
    there.write("read", READ)
    shutil.move(directory, there.project / "input")
    lines = [{"state": {"scan": f"{number % 5}.png"}} for number in range(20)]
    (there.project / "input" / "in.jsonl").write_text("\n".join(map(json.dumps, lines)))

    call = ("read", "input/in.jsonl", "--attach", "scan", "--name", "scans", "--detach")
    submitted = there("batch", *call)
    shutil.rmtree(tmp_path / "there")
    workers.start("--scheduler")

    assert submitted.returncode == 0, submitted.stderr
    (runs,) = workers.queries.batch_pages("scans")
    assert [workers.client.wait(run_id).output for run_id in runs] == ["read"] * 20
    urls = {request.messages[0]["content"][0]["image_url"]["url"] for request in server.requests}
    assert urls == {data_url(PNG + bytes([number]), "image/png") for number in range(5)}


def test_their_recording_names_them_by_digest(
    engine: Engine, server: ModelServer, ledger: Ledger, directory: Path
) -> None:
    server.when("Read", says("read"))
    load(ledger, directory, ["0.png", "copy.png"])
    submit(engine, ledger, Request(recorded=True))
    engine.drive()

    recorded = engine.client.recordings.recorded
    one, other = (written(recorded(run_id).calls) for run_id in engine.newest_runs())
    assert one == other
    assert hashlib.sha256(PNG + bytes([0])).hexdigest() in one
    assert base64.b64encode(PNG).decode()[:40] not in one


def test_they_serve_forks_and_go_with_the_last_run(
    engine: Engine, server: ModelServer, ledger: Ledger, directory: Path
) -> None:
    server.when("Read", says("read"))
    load(ledger, directory, ["1.png", "2.png"])
    submit(engine, ledger)
    engine.drive()
    one, other = engine.newest_runs()
    stray = engine.submit(READ, state={"scan": blob(PNG + bytes([1]))})

    fork = engine.client.fork(one, 0).run_id
    engine.drive()
    expiry_ms = engine.redis.pttl(KEY)

    assert engine.run(fork).output == "read"
    assert "no such file is stored" in str(engine.run(stray).output)  # of another batch, or none
    assert 0 < expiry_ms <= 2 * engine.store.settings.retention_s * 1000
    for batch_run in (one, other):
        assert engine.redis.exists(KEY)
        runs = removal.RemovableRuns((batch_run,), {}, None, is_whole=True)
        assert list(removal.remove(engine.client, runs)) == [True]
    assert not engine.redis.exists(KEY)


def test_a_line_whose_file_cannot_be_sent_is_malformed(ledger: Ledger, directory: Path) -> None:
    (directory / "large.pdf").write_bytes(pdf(1) + bytes(1_000))

    intake = load(ledger, directory, ["none.png", "note.png", "large.pdf", 5, ["0.png", "x\0"]])

    problems = [bad.problem for bad in intake.bad]
    assert problems[0] == "cannot attach 'none.png': No such file or directory"
    assert problems[1] == "cannot attach 'note.png': it is none of PNG, JPEG, GIF, WebP and PDF"
    assert "it is larger than" in problems[2]
    assert problems[3] == "'scan' is to be a path or a list of paths (--attach)"
    assert problems[4].startswith("cannot attach 'x\\x00'")


def test_files_have_room_together_and_stay_what_they_were(
    engine: Engine, ledger: Ledger, directory: Path
) -> None:
    load(ledger, directory, ["0.png", "1.png"])
    with Ledger() as other:
        too_many = load(other, directory, ["0.png", "1.png", "2.png"], most=2 * len(PNG) + 2)
    engine.configure(attach_batch_limit_bytes=len(PNG) + 1)
    with pytest.raises(SubmissionRefused, match="attach_batch_limit_bytes"):
        submit(engine, ledger)
    engine.configure()
    (directory / "1.png").write_bytes(PNG)
    with pytest.raises(SubmissionRefused, match="has changed since the input was read"):
        submit(engine, ledger)

    assert "attach_batch_limit_bytes" in too_many.bad[0].problem
    assert int(engine.redis.hget(KEY, "bytes")) == len(PNG) + 1
