"""`sleipnir eval`: versions of an agent, scored on labelled rows and compared in pairs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Sleipnir
from tests.support.model_server import ModelServer, Reply, says

CLASSIFY = """
model: own:small
initial_state: {text: ""}
start: sort
nodes:
  sort: {type: llm, prompt: "PROMPT {{text}}", next: done, state_updates: {label: "{{output}}"}}
  done: {type: end, value: "{{label}}", output: "{{label}}"}
"""
EVAL = """
rows: golden.csv
cluster: customer
checks:
  - {name: label, is: "value == row.expected"}
  - {name: brevity, score: "size(output) <= 5 ? 1 : 0.5"}
  - {name: kind, judge: kindness}
gate:
  label: {min: 0.5, drop: 0.02}
  cost_usd: {rise: 0.5}
"""
KINDNESS = """
model: own:small
initial_state: {kind: true}
start: ask
nodes:
  ask: {type: llm, prompt: "JUDGE {{initial_prompt}}", next: done}
  done: {type: end, value: "{{kind}}"}
"""
ROWS = 40


def sorted_by(request: Any) -> Reply:
    """Version one is right about each row; version two about three of four."""
    number = int(request.text.split("row-")[1].split()[0].rstrip('"'))
    right = "bill" if number % 2 else "other"
    wrong = "PROMPT2" in request.text and number % 4 == 0
    return says("wrong-label" if wrong else right, prompt_tokens=100, completion_tokens=5)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        server.when("JUDGE", says("yes"))
        server.script.when(lambda request: "PROMPT" in request.text, sorted_by)
        yield server


@pytest.fixture(scope="module")
def sleipnir(tmp_path_factory: pytest.TempPathFactory, server: ModelServer) -> Sleipnir:
    command = Sleipnir(tmp_path_factory.mktemp("eval"))
    directory = command.write("classify", CLASSIFY.replace("PROMPT", "PROMPT1"))
    command.write("kindness", KINDNESS)
    command.write("second", CLASSIFY.replace("PROMPT", "PROMPT2"))
    (directory / "evals").mkdir()
    (directory / "evals" / "golden.yaml").write_text(
        EVAL.replace("  - {name: kind, judge: kindness}\n", "")
    )
    rows = "".join(f"r{n},row-{n} ,{'bill' if n % 2 else 'other'},c{n // 4}\n" for n in range(ROWS))
    (directory / "evals" / "golden.csv").write_text(f"id,text,expected,customer\n{rows}")
    config = Path(command.environment["SLEIPNIR_CONFIG_DIR"])
    config.mkdir(exist_ok=True)
    price = {"prompt": 1.0, "completion": 4.0}
    models = {
        "providers": {"own": {"api_base": server.base_url}},
        "prices": {"own:small": price},
    }
    (config / "config.yaml").write_text(json.dumps({"models": models}))
    return command


def test_a_version_is_scored_and_never_run_twice(sleipnir: Sleipnir, server: ModelServer) -> None:
    before = len(server.requests)

    found = sleipnir.json("eval", "classify")
    made = len(server.requests) - before
    again = sleipnir.json("eval", "classify")

    assert made == ROWS
    assert len(server.requests) - before == ROWS
    (version,) = found["versions"]
    assert (version["name"], version["rows"], version["failed"]) == ("current", ROWS, 0)
    assert version["checks"]["label"] == pytest.approx(
        {"mean": 1.0, "low": 0.912378, "high": 1.0, "n": ROWS, "unjudged": 0}, abs=1e-6
    )
    assert version["cost_usd"] == pytest.approx(ROWS * 0.00012)
    assert (found["compared"], found["passed"]) == ([], True)
    assert again["versions"][0]["checks"] == version["checks"]


def test_a_worse_version_is_lost_and_the_gate_says_so(
    sleipnir: Sleipnir, server: ModelServer, tmp_path: Path
) -> None:
    call = ("eval", "classify", "--baseline", "classify", "--variant", "worse=second")

    found = sleipnir.json(*call)
    gated = sleipnir(*call, "--gate", "-o", str(tmp_path / "out"))
    before = len(server.requests)
    sleipnir(*call)

    assert [each["name"] for each in found["versions"]] == ["baseline", "current", "worse"]
    version = found["versions"][2]["version"]
    by_digits = sleipnir.json("eval", "classify", "--baseline", f"classify@{version[:5]}")
    assert by_digits["versions"][0]["version"] == version
    ambiguous = sleipnir("eval", "classify", "--baseline", "classify@")
    assert (ambiguous.returncode, "several versions begin so" in ambiguous.stderr) == (2, True)
    compared = {(each["name"], each["check"]): each for each in found["compared"]}
    lost = compared["worse", "label"]
    assert (lost["difference"], lost["won"], lost["lost"], lost["n"]) == (-0.25, 0, 10, ROWS)
    assert (lost["verdict"], lost["high"] < -0.02, lost["p"] < 0.01) == ("lost", True, True)
    assert compared["current", "label"]["verdict"] == "kept"
    assert compared["worse", "brevity"]["p"] is None
    assert found["passed"] is False
    assert gated.returncode == 1
    assert "sleipnir diff" in gated.stdout
    assert len(server.requests) == before  # nothing is paid for twice
    rows = (tmp_path / "out" / "rows.jsonl").read_text().splitlines()
    assert len(rows) == ROWS
    assert json.loads(rows[0])["versions"][2]["scores"]["label"] == 0.0
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["passed"] is False
    assert "# classify: golden" in (tmp_path / "out" / "report.md").read_text()


SHOWN = """
import json, sys
from sleipnir import Client
from sleipnir.scheduler.testing.evaluation.documents import show_evaluation
with Client() as client:
    shown = show_evaluation(client, "classify", "golden", baseline=sys.argv[1])
    print(json.dumps(shown.document))
"""


def test_a_page_shows_what_the_command_says(sleipnir: Sleipnir) -> None:
    said = sleipnir.json("eval", "classify", "--baseline", "second")
    program = [sys.executable, "-c", SHOWN, said["versions"][0]["version"]]

    shown = json.loads(
        subprocess.check_output(program, cwd=sleipnir.project, env=sleipnir.environment)
    )

    assert {name: shown[name] for name in said} == said


def test_what_was_written_is_a_version_too(
    sleipnir: Sleipnir, server: ModelServer, tmp_path: Path
) -> None:
    evals = sleipnir.project / "agents" / "classify" / "evals"
    (evals / "judged.yaml").write_text(EVAL)
    out = str(tmp_path / "out")
    first = sleipnir.json("eval", "classify", "judged", "--rows", "6", "-o", out)
    before = len(server.requests)

    found = sleipnir.json("eval", "classify", "judged", "--rows", "6", "--baseline", out)
    (tmp_path / "out" / "rows.jsonl").write_text('{"row": 5}\n')
    broken = sleipnir("eval", "classify", "judged", "--rows", "6", "--baseline", out)
    (evals / "judged.yaml").unlink()

    assert len(server.requests) == before
    baseline, current = found["versions"]
    assert (baseline["name"], baseline["checks"]) == ("baseline", first["versions"][0]["checks"])
    assert {each["check"]: each["difference"] for each in found["compared"]} == {
        "label": 0.0,
        "brevity": 0.0,
        "kind": 0.0,
    }
    assert current["tokens"] == baseline["tokens"]
    assert broken.returncode == 2
    assert "it is not as `eval -o` writes it" in broken.stderr


def test_an_accepted_version_is_the_baseline_from_then_on(sleipnir: Sleipnir) -> None:
    sleipnir("eval", "classify", "--accept")

    found = sleipnir.json("eval", "classify", "--rows", "40")

    assert [each["name"] for each in found["versions"]] == ["baseline", "current"]
    golden = sleipnir.project / "agents" / "classify" / "evals" / "golden.csv"
    table = golden.read_text()
    golden.write_text(table.replace("r1,row-1 ", "r1,row-101 ") + "r40,row-40 ,other,c10\n")
    grown = sleipnir.json("eval", "classify")
    golden.write_text(table)
    fewer = sleipnir.json("eval", "classify", "--rows", "3")
    # A row that has another text, or that is new, has no pair.
    assert [each["rows"] for each in grown["versions"]] == [39, 41]
    assert {each["n"] for each in grown["compared"]} == {39}
    assert [each["rows"] for each in fewer["versions"]] == [3, 3]
    unknown = sleipnir("eval", "classify", "--baseline", "classify@000000000000")
    assert (unknown.returncode, "no runs of evaluation" in unknown.stderr) == (2, True)
    some = sleipnir("eval", "classify", "--accept", "--rows", "2")
    assert (some.returncode, "leave out --rows" in some.stderr) == (2, True)
    accepted = sleipnir.project / "agents" / "classify" / "evals" / ".baseline"
    accepted.write_bytes(b"../\xff\x1b[2J")
    junk = sleipnir("eval", "classify")
    assert (junk.returncode, ".baseline" in junk.stderr) == (2, True)
    accepted.unlink()


def test_a_version_of_a_commit(sleipnir: Sleipnir) -> None:
    git = ("git", "-c", "user.email=a@b.c", "-c", "user.name=a", "-C", str(sleipnir.project))
    graph = sleipnir.project / "agents" / "classify" / "graph.yaml"
    for command in (("init", "-q"), ("add", "agents"), ("commit", "-q", "-m", "one")):
        subprocess.run([*git, *command], check=True, capture_output=True)
    before = graph.read_text()
    graph.write_text(before.replace("PROMPT1", "PROMPT2"))

    found = sleipnir.json("eval", "classify", "--baseline", "git:HEAD")
    unknown = sleipnir("eval", "classify", "--baseline", "git:nowhere")
    planted = sleipnir.project / "planted"
    option = sleipnir("eval", "classify", "--baseline", f"git:--output={planted}")
    graph.write_text(before)

    assert [each["checks"]["label"]["mean"] for each in found["versions"]] == [1.0, 0.75]
    assert (unknown.returncode, "git:nowhere" in unknown.stderr) == (2, True)
    assert (option.returncode, "not a revision" in option.stderr) == (2, True)
    assert not planted.exists()


def test_a_judge_is_asked_once_for_each_run(sleipnir: Sleipnir, server: ModelServer) -> None:
    file = sleipnir.project / "agents" / "classify" / "evals" / "judged.yaml"
    file.write_text(EVAL)
    before = len(server.requests)

    found = sleipnir.json("eval", "classify", "judged", "--rows", "5")
    made = len(server.requests) - before
    sleipnir.json("eval", "classify", "judged", "--rows", "5")
    again = len(server.requests) - before
    golden = file.with_name("golden.csv")
    table = golden.read_text()
    golden.write_text(table.replace("row-0 ,other", "row-0 ,bill"))
    sleipnir.json("eval", "classify", "judged", "--rows", "5")
    golden.write_text(table)
    file.write_text(EVAL.replace("judge: kindness", "judge: nobody"))
    missing = sleipnir("eval", "classify", "judged", "--rows", "5", "--baseline", "second")
    file.unlink()

    (version,) = found["versions"]
    assert (version["checks"]["kind"]["mean"], version["checks"]["kind"]["n"]) == (1.0, 5)
    assert version["judge_usd"] > 0
    assert (made, again) == (10, 10)
    assert len(server.requests) - before == 11  # of the row that has another label
    assert (missing.returncode, "no agent named 'nobody'" in missing.stderr) == (2, True)


def test_checks_see_all_that_a_result_line_says(sleipnir: Sleipnir, tmp_path: Path) -> None:
    file = sleipnir.project / "agents" / "classify" / "evals" / "names.yaml"
    file.write_text(
        "rows: golden.csv\nchecks:\n"
        "  - {name: end, is: 'state.label == value && status == \"succeeded\" && error == null'}\n"
        "  - {name: way, is: 'size(failures) == 0 && usage.total_tokens == 105'}\n"
        "  - {name: time, score: 'elapsed_s >= 0 ? 1 : 0'}\n"
    )
    out = str(tmp_path / "out")

    first = sleipnir.json("eval", "classify", "names", "--rows", "4", "-o", out)
    call = ("eval", "classify", "names", "--rows", "6", "--baseline", out)
    found, printed = sleipnir.json(*call), sleipnir(*call).stdout
    file.unlink()

    (version,) = first["versions"]
    assert [check["mean"] for check in version["checks"].values()] == [1.0, 1.0, 1.0]
    baseline, current = found["versions"]
    assert (baseline["rows"], baseline["failed"], current["rows"]) == (4, 0, 6)
    assert [(each["n"], each["difference"]) for each in found["compared"]] == [(4, 0.0)] * 3
    assert "tokens of a row  105" in printed


def test_versions_of_a_report_have_names_of_their_own(sleipnir: Sleipnir) -> None:
    again = sleipnir("eval", "classify", "--variant", "a=second", "--variant", "a=classify")
    current = sleipnir("eval", "classify", "--variant", "current=second")

    assert [each.returncode for each in (again, current)] == [2, 2]
    assert "--variant a=…: another version has that name" in again.stderr
    assert "--variant current=…" in current.stderr


def test_mistakes_are_named_with_their_places(sleipnir: Sleipnir) -> None:
    file = sleipnir.project / "agents" / "classify" / "evals" / "wrong.yaml"
    file.write_text(
        "rows: golden.csv\nchecks:\n  - {name: a, is: 'value ==', score: '1'}\n"
        "gate: {b: {drop: 2}}\n"
    )
    odd = sleipnir.project / "agents" / "classify" / "evals" / "odd.yaml"
    odd.write_text("rows: golden.csv\nchecks:\n  - {name: a, score: 'size(output)'}\n")

    wrong = sleipnir("eval", "classify", "wrong")
    not_a_score = sleipnir("eval", "classify", "odd")
    unknown = sleipnir("eval", "classify", "none")
    which = sleipnir("eval", "classify")
    file.unlink()
    odd.unlink()

    assert wrong.returncode == 2
    assert "wrong.yaml:3" in wrong.stderr
    assert "E219" in wrong.stderr
    assert "needs one of is, score, judge" in wrong.stderr
    assert not_a_score.returncode == 2
    assert "check 'a' of row 'r0': 5, not a number from 0 to 1" in not_a_score.stderr
    assert (unknown.returncode, "no evaluation 'none'" in unknown.stderr) == (2, True)
    assert (which.returncode, "golden" in which.stderr) == (2, True)


def test_an_evaluation_is_made_of_a_file_and_grows_by_runs(sleipnir: Sleipnir) -> None:
    source = sleipnir.project / "mine.csv"
    source.write_text("text,expected\nrow-1 ,bill\nrow-2 ,other\n")
    run = sleipnir.json("run", "classify", "--set", "text=row-3 ")["run_id"]

    made = sleipnir("eval", "classify", "--init", str(source))
    added = sleipnir("eval", "classify", "mine", "--add", run, "--expected", "bill")
    found = sleipnir.json("eval", "classify", "mine")

    assert (made.returncode, added.returncode) == (0, 0), made.stderr + added.stderr
    assert "run it with: sleipnir eval classify mine\n" in made.stderr
    assert found["versions"][0]["checks"]["right"]["n"] == 3
    assert found["versions"][0]["checks"]["right"]["mean"] == 1.0
    assert sleipnir("eval", "classify", "--init", str(source)).returncode == 2


def test_rows_are_added_to_tables_as_spreadsheets_write_them(sleipnir: Sleipnir) -> None:
    evals = sleipnir.project / "agents" / "classify" / "evals"
    (evals / "sheet.yaml").write_text("rows: sheet.csv\nchecks: [{name: a, is: 'true'}]\n")
    table = evals / "sheet.csv"
    table.write_text("expected;text\nbill;row-1", encoding="utf-8-sig")
    run = sleipnir.json("run", "classify", "--set", "text=row-3 ")["run_id"]
    add = ("eval", "classify", "sheet", "--add", run, "--expected", "bill")

    added = sleipnir(*add)
    grown = table.read_text(encoding="utf-8-sig")
    table.write_text("")
    refused = sleipnir(*add)
    (evals / "sheet.yaml").unlink()

    assert added.returncode == 0, added.stderr
    assert grown.splitlines() == ["expected;text", "bill;row-1", "bill;row-3 "]
    assert (refused.returncode, "no column `expected`" in refused.stderr) == (2, True)
