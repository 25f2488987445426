"""`sleipnir draw`: a graph by extension, and the progress of a run in it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import yaml

from tests.support.command_line import Sleipnir
from tests.support.dense_graphs import dense
from tests.support.processes import children_of, is_alive
from tests.support.wait import wait_until

ASK = """
start: ready
nodes:
  ready: {type: input, question: "Ready?", next: ask}
  ask: {type: approval, question: "ok?", options: [], routes: {}, on_other: end}
  end: {type: end}
"""


@pytest.fixture(scope="module")
def sleipnir(shared_engine: Sleipnir) -> Sleipnir:
    shared_engine.write("asker", ASK)
    return shared_engine


def test_mermaid_is_printed(sleipnir: Sleipnir) -> None:
    done = sleipnir("draw", "asker")

    assert done.returncode == 0
    assert done.stdout.startswith("flowchart TD\n")
    assert "ask<br/>" in done.stdout


@pytest.mark.parametrize(
    ("name", "beginning"), [("a.mmd", b"flowchart"), ("a.dot", b"digraph"), ("a.svg", b"<svg")]
)
def test_the_extension_tells_the_format(
    sleipnir: Sleipnir, tmp_path: Path, name: str, beginning: bytes
) -> None:
    done = sleipnir("draw", "asker", "-o", str(tmp_path / name))

    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / name).read_bytes().startswith(beginning)


def test_other_extensions_are_refused(sleipnir: Sleipnir) -> None:
    done = sleipnir("draw", "asker", "-o", "graph.bmp")

    assert done.returncode == 2
    assert "use .mmd, .dot, .svg or .png" in done.stderr


def test_a_run_colours_what_it_has_come_to(sleipnir: Sleipnir) -> None:
    run_id = sleipnir.json("run", "asker", "--answer", "ready=yes")["run_id"]
    sleipnir.write("asker", "start: end\nnodes:\n  end: {type: end}\n")  # since then

    drawn = sleipnir("draw", "--run", run_id[:10]).stdout

    before = sleipnir("draw", "--run", run_id, "--step", "0").stdout
    beyond = sleipnir("draw", "--run", run_id, "--step", "7")

    sleipnir.write("asker", ASK)
    assert _class_of("ready<br/>", before) == "runningNode"
    assert "ask" not in [line for line in before.splitlines() if "doneNode" in line]
    assert "step 7 does not exist; the last one is 1" in beyond.stderr
    assert _class_of("ready<br/>", drawn) == "doneNode"
    assert _class_of("ask<br/>", drawn) == "waitingNode"


def _class_of(label: str, drawing: str) -> str:
    (line,) = [line for line in drawing.splitlines() if f'"{label}' in line]
    return line.rpartition(":::")[2]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -15)])
def test_a_layout_is_ended_with_the_command(
    sleipnir: Sleipnir, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    sleipnir.write("dense", yaml.safe_dump(dense(200)), {"go.sh": "echo '{}'"})
    drawing = sleipnir.start("draw", "dense", "-o", str(tmp_path / "dense.svg"))
    helpers = wait_until(lambda: children_of(drawing.pid), "it is being laid out")

    drawing.send_signal(number)
    output, said = drawing.communicate(timeout=90)

    assert (drawing.returncode, output, said) == (status, "", "")
    wait_until(lambda: not any(map(is_alive, helpers)), "its process has ended", 20)
    assert not (tmp_path / "dense.svg").exists()
