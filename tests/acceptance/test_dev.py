"""`sleipnir dev`: a save is validated, and run from the first node that it changed."""

from __future__ import annotations

from pathlib import Path

from tests.support.command_line import Sleipnir

GRAPH = """
    start: fetch
    nodes:
      fetch: {type: script, script: fetch.sh, next: double}
      double: {type: script, script: double.sh, next: done}
      done: {type: end, output: "{{n}}"}
"""
# Each line of `paid` was paid for.
FETCH = """#!/bin/sh
echo paid >> "$PAID"
echo '{"n": 2}'
"""


def save(file: Path, text: str) -> None:
    """Save it at once, as editors do."""
    draft = file.parents[3] / "draft"
    draft.write_text(text)
    draft.chmod(0o755)
    draft.replace(file)


def test_a_save_runs_again_what_it_changed_and_shows_the_difference(tmp_path: Path) -> None:
    paid = tmp_path / "paid"
    sleipnir = Sleipnir(tmp_path, PAID=str(paid), SLEIPNIR_TOOL_ENV="PAID")
    agent = sleipnir.write("tested", GRAPH, {"fetch.sh": FETCH, "double.sh": "echo '{\"n\": 4}'"})
    graph = (agent / "graph.yaml").read_text()

    session = sleipnir.on_terminal("dev", "tested", "go")
    session.wait_for("watching")
    save(agent / "double.sh", "echo '{\"n\": 5}'")
    session.wait_for("changed: double; running again from step 2")
    session.wait_for("watching")
    save(agent / "graph.yaml", graph.replace("next: done", "next: nowhere"))
    session.wait_for("nowhere")
    session.wait_for("watching")
    save(agent / "graph.yaml", graph.replace("{{n}}", "n is {{n}}"))
    session.wait_for("changed: done; running again from step 3")
    session.wait_for("watching")
    session.interrupt()
    code, printed = session.end()

    assert code == 0
    assert paid.read_text() == "paid\n"
    # The three outputs; and between two runs what is different.
    outputs = [line for line in printed.splitlines() if line in ("4", "5", "n is 5")]
    assert outputs == ["4", "5", "n is 5"]
    assert "route" in printed


def test_without_a_prompt_it_goes_on_from_the_last_run(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path)
    agent = sleipnir.write(
        "tested", 'start: done\nnodes: {done: {type: end, output: "{{initial_prompt}}"}}'
    )
    assert sleipnir("run", "tested", "Ada").stdout == "Ada\n"
    text = (agent / "graph.yaml").read_text()
    (agent / "graph.yaml").write_text(text.replace("{{initial", "Hi {{initial"))

    session = sleipnir.on_terminal("dev", "tested")
    session.wait_for("changed: done; running again from step 1")
    session.wait_for("watching")
    session.interrupt()
    code, printed = session.end()

    assert (code, printed.splitlines()[0]) == (0, "Hi Ada")
