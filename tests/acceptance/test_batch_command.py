"""`sleipnir batch`: a file in, results out, and the same again after an interruption."""

from __future__ import annotations

import csv
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Sleipnir
from tests.support.wait import wait_until

SHOUT = """
variables:
  - {name: mark, description: put at the end, default: "!"}
start: shout
nodes:
  shout: {type: script, script: shout.sh}
  loud: {type: end, output: "{{loud}}"}
"""
# Prompts that name a file wait until it is there.
SCRIPT = """\
#!/bin/bash
python3 - <<'END'
import json, os, sys, time
from pathlib import Path
state = json.loads(os.environ["GRAPH_STATE"])
prompt = state["initial_prompt"]
if prompt == "fail":
    sys.exit("told to")
while prompt.startswith("/") and not Path(prompt).exists():
    time.sleep(0.02)
print(json.dumps({"loud": prompt.upper() + state["mark"], "_next": "loud"}))
END
"""
ASK = """
start: ask
nodes:
  ask: {type: approval, question: "ok?", options: [], routes: {}, on_other: end,
        state_updates: {answer: "{{choice}}"}}
  end: {type: end, output: "{{answer}}"}
"""


@pytest.fixture(scope="module")
def sleipnir(shared_engine: Sleipnir) -> Sleipnir:
    """The command, with an agent that shouts and one that asks."""
    shared_engine.write("shout", SHOUT, {"shout.sh": SCRIPT})
    shared_engine.write("ask", ASK)
    return shared_engine


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def write(directory: Path, name: str, *lines: str) -> str:
    file = directory / name
    file.write_text("".join(f"{line}\n" for line in lines))
    return str(file)


def test_results_are_json_lines_on_standard_output(sleipnir: Sleipnir, tmp_path: Path) -> None:
    file = write(tmp_path, "in.jsonl", '{"id": "a", "prompt": "one"}', '{"id": "b", "prompt": "x"}')

    done = sleipnir("batch", "shout", file, "--ordered", "--var", "mark=?")

    assert done.returncode == 0
    first, second = lines_of(done.stdout)
    assert (first["id"], first["status"], first["output"]) == ("a", "succeeded", "ONE?")
    assert first.keys() >= {"run_id", "error", "usage", "elapsed_s", "failures"}
    assert first["try"] == 1
    assert (second["id"], second["output"]) == ("b", "X?")
    assert "2 of 2 lines finished" in done.stderr
    assert ["shout", "2"] in [line.split()[:2] for line in done.stderr.splitlines()]


def test_a_failed_run_is_a_result_and_exit_code_1(sleipnir: Sleipnir, tmp_path: Path) -> None:
    file = write(tmp_path, "in.txt", "fail", "fine")

    done = sleipnir("batch", "shout", file, "--ordered")

    assert done.returncode == 1
    assert [result["status"] for result in lines_of(done.stdout)] == ["failed", "succeeded"]
    assert lines_of(done.stdout)[0]["error"]["code"] == "R013"
    assert "--retry-failed" in done.stderr


def test_a_malformed_line_is_reported_before_anything_runs(
    sleipnir: Sleipnir, tmp_path: Path
) -> None:
    file = write(tmp_path, "in.jsonl", '"one"', "{", '{"vars": {"tone": "x"}}')

    done = sleipnir("batch", "shout", file, "--name", "malformed")

    assert (done.returncode, done.stdout) == (2, "")
    assert "line 2: this is not JSON" in done.stderr
    assert "line 3: agent 'shout' declares no variable 'tone'" in done.stderr
    assert sleipnir("ps", "--batch", "malformed", "--json").stdout == ""


def test_malformed_lines_may_be_left_out(sleipnir: Sleipnir, tmp_path: Path) -> None:
    file = write(tmp_path, "in.jsonl", '"one"', "{")

    done = sleipnir("batch", "shout", file, "--skip-bad")

    assert done.returncode == 0
    assert [result["output"] for result in lines_of(done.stdout)] == ["ONE!"]
    assert "line 2" in done.stderr


def test_an_input_without_lines_is_told_as_such(sleipnir: Sleipnir, tmp_path: Path) -> None:
    done = sleipnir("batch", "shout", write(tmp_path, "nothing.txt"))

    assert (done.returncode, done.stdout) == (0, "")
    assert "0 of 0 lines finished" in done.stderr
    assert "finished before" not in done.stderr


def test_reasons_of_failures_are_told_once_each_at_the_end(
    sleipnir: Sleipnir, tmp_path: Path
) -> None:
    source = write(tmp_path, "why.txt", "good", "fail", "better", "fail")
    target = tmp_path / "why.jsonl"
    told = "2 lines, first 2: R013 at 'shout': "

    first = sleipnir("batch", "shout", source, "--name", "why", "-o", str(target))
    again = sleipnir("batch", "shout", source, "--name", "why", "-o", str(target))

    assert told in first.stderr
    assert "exit code 1: told to" in first.stderr
    assert told in again.stderr


def test_results_may_carry_input_and_state_and_be_a_table(
    sleipnir: Sleipnir, tmp_path: Path
) -> None:
    source, table = write(tmp_path, "more.txt", "one", "=two"), tmp_path / "out.csv"
    more = ("--with-input", "--with-state", "loud", "--with-state", "none", "--ordered")

    done = sleipnir("batch", "shout", source, "--name", "more", "-o", str(table), *more)

    assert done.returncode == 0, done.stderr
    first, _ = lines_of((tmp_path / "out.csv.jsonl").read_text())
    assert first["input"]["prompt"] == "one"
    assert first["state"] == {"loud": "ONE!", "none": None}
    assert "no run has 'none' in its state; `sleipnir state RUN` shows the keys" in done.stderr
    with table.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["prompt"], row["state.loud"]) for row in rows] == [
        ("one", "ONE!"),
        ("'=two", "'=TWO!"),
    ]


def test_a_header_of_which_nothing_comes_is_refused(sleipnir: Sleipnir) -> None:
    done = sleipnir("batch", "shout", "-", "--format", "csv", stdin="text;city\nhey;Oslo\n")

    assert done.returncode == 2
    assert "the agent uses none of its columns ('text', 'city'), so nothing was" in done.stderr


def test_what_lines_have_in_vain_and_lack_is_said_before_they_run(
    sleipnir: Sleipnir, tmp_path: Path
) -> None:
    file = tmp_path / "in.csv"
    file.write_bytes("sep=;\r\nid;prompt;Straße\r\n1;hé;x\r\n2;;x\r\n;;\r\n".encode("cp1252"))

    refused = sleipnir("batch", "shout", str(file), "--skip-bad")
    done = sleipnir("batch", "shout", str(file), "--encoding", "cp1252", "--ordered")
    unknown = sleipnir("batch", "shout", str(file), "--encoding", "excel")

    assert refused.returncode == 2
    assert "line 2, the header: this is not UTF-8; nothing was submitted" in refused.stderr
    assert "--encoding cp1252" in refused.stderr
    assert [result["output"] for result in lines_of(done.stdout)] == ["HÉ!", "!"]
    assert [line for line in done.stderr.splitlines() if line.startswith("warning: ")] == [
        f"warning: {file}: rows without any value are left out (1 line, first 5)",
        f"warning: {file}: the prompt is empty (1 line, first 4)",
        f"warning: {file}: nothing in agent 'shout' reads 'Straße' (2 lines, first 3)",
    ]
    assert (unknown.returncode, "cp1252" in unknown.stderr) == (2, True)


def test_csv_and_standard_input_are_read(sleipnir: Sleipnir) -> None:
    done = sleipnir(
        "batch", "shout", "-", "--format", "csv", stdin="id,prompt,mark\na,hey,*\nb,you,+\n"
    )

    assert done.returncode == 0
    assert {result["output"] for result in lines_of(done.stdout)} == {"HEY*", "YOU+"}


def test_a_changed_agent_is_noticed(sleipnir: Sleipnir, tmp_path: Path) -> None:
    sleipnir.write("edited", SHOUT, {"shout.sh": SCRIPT})
    file, results = write(tmp_path, "in.txt", "one"), tmp_path / "out.jsonl"
    command = ("batch", "edited", file, "-o", str(results))
    sleipnir(*command)
    write(tmp_path, "in.txt", "one", "two")
    sleipnir.write("edited", SHOUT.replace('"!"', '"?"'), {"shout.sh": SCRIPT})

    refused = sleipnir(*command)
    kept = results.read_text()
    mixed = sleipnir(*command, "--mixed")
    after = lines_of(results.read_text())
    redone = sleipnir(*command, "--redo", f"agent_version == '{after[0]['agent_version']}'")

    (before,) = lines_of(kept)
    assert refused.returncode == 2
    assert f"1 of 2 lines were run with version {before['agent_version']}" in refused.stderr
    assert (mixed.returncode, [line["output"] for line in after]) == (0, ["ONE!", "TWO?"])
    assert len({line["agent_version"] for line in after}) == 2
    assert {line["redone"] for line in after} == {0}
    assert "1 of 2 finished lines run from the start again" in redone.stderr
    assert {line["output"]: line["redone"] for line in lines_of(results.read_text())} == {
        "ONE?": 1,
        "TWO?": 0,
    }


def test_a_budget_needs_the_price_of_every_model(sleipnir: Sleipnir, tmp_path: Path) -> None:
    graph = """
model: openai:gpt-4o-mini
start: a
nodes:
  a: {type: llm, prompt: "{{initial_prompt}}", next: b}
  b: {type: agent, agent: homemade, prompt: x, next: z}
  z: {type: end}
"""
    child = """
start: a
nodes:
  a: {type: llm, prompt: "{{initial_prompt}}", model: openai:home-made, next: z}
  z: {type: end}
"""
    sleipnir.write("homemade", child)
    sleipnir.write("priced", graph)

    refused = sleipnir("batch", "priced", write(tmp_path, "in.txt", "one"), "--budget", "1")

    assert refused.returncode == 2
    assert "that of openai:home-made is not known" in refused.stderr
    assert "models.prices" in refused.stderr


def test_an_interrupted_batch_goes_on(sleipnir: Sleipnir, tmp_path: Path) -> None:
    gate, results = tmp_path / "gate", tmp_path / "results.jsonl"
    file = write(tmp_path, "in.txt", "one", str(gate))
    first = sleipnir.start("batch", "shout", file, "-o", str(results))
    wait_until(lambda: results.exists() and results.read_text(), "the first result", 30)

    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=90)
    gate.touch()
    again = sleipnir("batch", "shout", file, "-o", str(results))

    assert first.returncode == 130
    assert "Run the same command again" in said
    assert again.returncode == 0
    assert [result["line"] for result in lines_of(results.read_text())] == [1, 2]


def test_a_killed_batch_runs_no_line_twice(sleipnir: Sleipnir, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    file = write(tmp_path, "in.txt", "one", str(gate))
    command = ("batch", "shout", file, "--name", tmp_path.name)
    first = sleipnir.start(*command)
    assert first.stdout is not None
    first.stdout.readline()
    first.kill()
    first.communicate()

    gate.touch()
    again = sleipnir(*command)

    assert len(lines_of(again.stdout)) == 2
    assert len(lines_of(sleipnir("ps", "--batch", tmp_path.name, "--json").stdout)) == 2


def test_failed_lines_are_retried_when_asked_to(sleipnir: Sleipnir, tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    command = ("batch", "shout", write(tmp_path, "in.txt", "fail", "fine"), "-o", str(results))
    sleipnir(*command)
    (before,) = [found for found in lines_of(results.read_text()) if found["line"] == 1]

    retried = sleipnir(*command, "--retry-failed")
    (tried,) = [found for found in lines_of(results.read_text()) if found["line"] == 1]
    sleipnir(*command, "--retry-failed", "--from-start")

    (after,) = [found for found in lines_of(results.read_text()) if found["line"] == 1]
    assert retried.returncode == 1
    assert before["run_id"] == tried["run_id"] != after["run_id"]


def test_lines_that_wait_for_a_person_end_the_command_with_1(
    sleipnir: Sleipnir, tmp_path: Path
) -> None:
    command = ("batch", "ask", write(tmp_path, "in.txt", "a"), "--name", tmp_path.name)

    waiting = sleipnir(*command)
    (run,) = lines_of(sleipnir("ps", "--batch", tmp_path.name, "--json").stdout)
    sleipnir("answer", run["run_id"], "fine")
    finished = sleipnir(*command)

    assert (waiting.returncode, waiting.stdout) == (1, "")
    assert "1 run waits for a person: answer it (sleipnir inbox)" in waiting.stderr
    assert lines_of(finished.stdout)[0]["output"] == "fine"


def test_answers_may_be_given_for_all_lines_and_for_one(sleipnir: Sleipnir, tmp_path: Path) -> None:
    file = write(tmp_path, "in.jsonl", '"x"', '{"prompt": "y", "answers": {"ask": "own"}}')

    done = sleipnir("batch", "ask", file, "--ordered", "--answer", "ask=common")

    assert [result["output"] for result in lines_of(done.stdout)] == ["common", "own"]


def test_a_detached_batch_can_be_looked_at(sleipnir: Sleipnir, tmp_path: Path) -> None:
    file = write(tmp_path, "in.txt", "one", "two")

    detached = sleipnir("batch", "shout", file, "--detach")
    name = detached.stdout.strip()

    def status() -> Any:
        return sleipnir.json("batch", "--status", name)

    wait_until(lambda: status().get("succeeded") == 2, "both runs are done", 30)
    assert status()["runs"] == 2
    assert [(node["id"], node["visits"]) for node in status()["nodes"]] == [
        ("shout", 2),
        ("loud", 2),
    ]
    assert sleipnir.json("batch", "shout", file, "--detach") == {"batch": name}


def test_results_of_a_batch_are_searched_and_counted(sleipnir: Sleipnir, tmp_path: Path) -> None:
    file = write(tmp_path, "in.txt", "one", "fail", "three")
    sleipnir("batch", "shout", file, "--name", "searched")
    status = ("batch", "--status", "searched")

    found = sleipnir(
        *status, "--where", "error == null && size(state.loud) > 2", "--with-state", "loud"
    )
    counted = sleipnir(*status, "--count", "error == null ? status : error.code")
    refused = sleipnir(*status, "--where", "size(output) > 2")
    misspelt = sleipnir(*status, "--where", "size(output > 2")

    assert [(line["line"], line["state"]["loud"]) for line in lines_of(found.stdout)] == [
        (1, "ONE!"),
        (3, "THREE!"),
    ]
    assert counted.stdout == "2 succeeded\n1 R013\n"
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--where 'size(output) > 2' fails for 1 line" in refused.stderr
    assert "line 2: size: null" in refused.stderr
    assert misspelt.returncode == 2
    assert "at character 5 of 'size(output > 2' (quote the whole expression)" in misspelt.stderr


def test_results_go_past_a_progress_bar(sleipnir: Sleipnir, tmp_path: Path) -> None:
    terminal = sleipnir.on_terminal("batch", "shout", write(tmp_path, "in.txt", "one", "two"))

    terminal.wait_for("2 of 2 lines finished")
    code, output = terminal.end()

    assert code == 0
    assert {result["output"] for result in lines_of(output)} == {"ONE!", "TWO!"}
