"""`sleipnir run` and `submit`: the result on stdout, everything else on stderr."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.command_line import COMMAND, Sleipnir

GREETER = """
description: Greets.
variables:
  - {name: tone, description: how to greet, default: friendly}
start: greet
nodes:
  greet:
    type: script
    script: greet.sh
    next: done
  done:
    type: end
    output: "{{greeting}}"
"""
GREET = """\
#!/bin/bash
echo "a remark" >&2
python3 - <<'END'
import json, os
state = json.loads(os.environ["GRAPH_STATE"])
greeting = f"{state['tone']} hello {state['initial_prompt']}{state.get('mark', '')}"
print(json.dumps({"greeting": greeting, "where": os.getcwd()}))
END
"""


@pytest.fixture(scope="module")
def sleipnir(shared_engine: Sleipnir) -> Sleipnir:
    """The command, with an agent that greets."""
    shared_engine.write("greeter", GREETER, {"greet.sh": GREET})
    return shared_engine


def test_the_result_alone_is_on_standard_output(sleipnir: Sleipnir) -> None:
    done = sleipnir("run", "greeter", "Ada")

    assert (done.returncode, done.stdout) == (0, "friendly hello Ada\n")
    # A slow machine is told more in between: that no worker seems to be running.
    narration = [line for line in done.stderr.splitlines() if line.startswith("▸")]
    assert narration[:2] == ["▸ graph: greeter (start: greet)", "▸ greet (script)"]
    assert narration[2].startswith("▸ greet -> done")
    assert narration[-1].startswith("▸ graph done in ")


def test_files_go_with_the_prompt(sleipnir: Sleipnir) -> None:
    (sleipnir.project / "plan.md").write_text("peas\n")

    done = sleipnir("run", "greeter", "Ada", "-f", "plan.md")
    refused = sleipnir("submit", "greeter", "Ada", "--file", "plan.md", "--file", "gone.md")

    assert done.stdout == 'friendly hello Ada\n\n<file path="plan.md">\npeas\n</file>\n'
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "error: cannot attach gone.md: No such file or directory\n"


def test_blanks_that_keep_a_reference_from_being_one_are_told_last(sleipnir: Sleipnir) -> None:
    output = "{{ initial_prompt }} {{ whoever }} {{initial_prompt}}"
    sleipnir.write("blanks", f'start: z\nnodes:\n  z: {{type: end, output: "{output}"}}\n')

    done = sleipnir("run", "blanks", "Ada")

    assert done.stdout == "{{ initial_prompt }} {{ whoever }} Ada\n"
    *_, warning, hint = done.stderr.splitlines()
    assert warning.startswith("warning: ")
    assert warning.endswith("'{{ initial_prompt }}' is literal text, not a reference")
    assert hint == "  hint: write {{initial_prompt}}"
    assert "W008" not in sleipnir("run", "blanks", "--quiet").stderr


@pytest.mark.parametrize(
    ("closed", "seen"), [("0<&-", "friendly hello \n"), ("1>&-", ""), ("2>&-", "friendly hello \n")]
)
def test_it_runs_without_a_standard_stream(sleipnir: Sleipnir, closed: str, seen: str) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, "run", "greeter"],
        cwd=sleipnir.project,
        env=sleipnir.environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, seen)


def test_quiet_leaves_the_narration_out(sleipnir: Sleipnir) -> None:
    done = sleipnir("-q", "run", "greeter", "Ada")

    assert (done.stdout, done.stderr) == ("friendly hello Ada\n", "")


def test_a_prompt_of_a_dash_is_read_from_standard_input(sleipnir: Sleipnir) -> None:
    done = sleipnir("run", "greeter", "-", stdin="Grace")

    assert done.stdout == "friendly hello Grace\n"


def test_seeds_are_json_where_they_parse(sleipnir: Sleipnir) -> None:
    document = sleipnir.json("run", "greeter", "--set", "mark=!", "--set", 'list=[1, "a"]')

    assert document["state"]["mark"] == "!"
    assert document["state"]["list"] == [1, "a"]


def test_a_variable_comes_from_the_flag_before_the_environment(sleipnir: Sleipnir) -> None:
    variables = {"GREETER_VARIABLES": '{"tone": "gruff"}'}

    by_environment = sleipnir("run", "greeter", **variables)
    by_flag = sleipnir("run", "greeter", "--var", "tone=warm", **variables)

    assert by_environment.stdout == "gruff hello \n"
    assert by_flag.stdout == "warm hello \n"


def test_scripts_work_in_the_directory_of_the_command(sleipnir: Sleipnir, tmp_path: Path) -> None:
    here = sleipnir.json("run", "greeter")
    there = sleipnir.json("run", "greeter", "--workdir", str(tmp_path))

    assert here["state"]["where"] == str(sleipnir.project.resolve())
    assert there["state"]["where"] == str(tmp_path.resolve())


def test_labels_are_told_of_a_run(sleipnir: Sleipnir) -> None:
    document = sleipnir.json("run", "greeter", "Ada", "--label", "team=a=b", "--label", "x=")

    assert document["labels"] == {"team": "a=b", "x": ""}
    assert "team=a=b" in sleipnir("show", document["run_id"]).stdout
    refused = sleipnir("run", "greeter", "Ada", "--label", "no name=1")
    assert refused.returncode == 2
    assert "'no name' is not a valid name of a label" in refused.stderr


def test_json_holds_everything_about_the_run(sleipnir: Sleipnir) -> None:
    document = sleipnir.json("run", "greeter", "Ada")

    assert document == {
        "run_id": document["run_id"],
        "agent": "greeter",
        "directory": str(sleipnir.project / "agents" / "greeter"),
        "status": "succeeded",
        "output": "friendly hello Ada",
        "value": None,
        "error": None,
        "failures": [],
        "failed_nodes": 0,
        "state": document["state"],
        "usage": {
            "prompt_tokens": 0,
            "completion_tokens": 0,
            "total_tokens": 0,
            "cached_tokens": 0,
            "cache_written_tokens": 0,
            "cost_usd": 0.0,
            "economy_usd": 0.0,
        },
        "elapsed_s": document["elapsed_s"],
        "steps": 2,
        "forked_from": None,
        "labels": {},
        "session": None,
        "try": 1,
    }
    assert document["state"]["greeting"] == "friendly hello Ada"
    assert 0 < document["elapsed_s"] < 60


def test_submit_prints_the_id_alone_and_the_run_goes_on(sleipnir: Sleipnir) -> None:
    submitted = sleipnir("submit", "greeter", "Ada")
    run_id = submitted.stdout.strip()

    watched = sleipnir("watch", run_id[:10])

    assert len(run_id) == 16
    assert (watched.returncode, watched.stdout) == (0, "friendly hello Ada\n")


def test_detach_is_submit(sleipnir: Sleipnir) -> None:
    detached = sleipnir("run", "--detach", "greeter")

    assert len(detached.stdout.strip()) == 16


def test_show_names_nodes_with_their_times(sleipnir: Sleipnir) -> None:
    run_id = sleipnir.json("run", "greeter")["run_id"]

    shown, document = sleipnir("show", run_id), sleipnir.json("show", run_id)

    assert {node["id"]: node["type"] for node in document["nodes"]} == {
        "greet": "script",
        "done": "end",
    }
    assert (document["children"], document["question"]) == ([], None)
    assert run_id in shown.stdout
    assert "greet  script  1" in shown.stdout


def test_state_can_be_read_as_it_was_after_each_step(sleipnir: Sleipnir) -> None:
    run_id = sleipnir.json("run", "greeter", "Ada")["run_id"]

    seeds = json.loads(sleipnir("state", run_id, "--step", "0").stdout)
    greeting = sleipnir("state", run_id, "greeting")
    changes = sleipnir("state", run_id, "greeting", "--diff")

    assert seeds == {"initial_prompt": "Ada", "tone": "friendly"}
    assert greeting.stdout == '"friendly hello Ada"\n'
    assert '\nstep 1: greet\n+ greeting: "friendly hello Ada"\n' in changes.stdout


def test_logs_keep_what_scripts_say_on_standard_error(sleipnir: Sleipnir) -> None:
    run_id = sleipnir.json("run", "greeter")["run_id"]

    logged = sleipnir("logs", run_id, "--node", "greet")

    assert "1 greet stderr | a remark\n" in logged.stdout


def test_ps_lists_runs_newest_first(sleipnir: Sleipnir) -> None:
    first, second = (sleipnir("submit", "greeter").stdout.strip() for _ in range(2))

    listed = sleipnir("ps", "--json", "--agent", "greeter", "--limit", "2").stdout.splitlines()

    assert [json.loads(line)["run_id"] for line in listed] == [second, first]


def test_a_cold_engine_is_started_for_one_run_and_stopped_again(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path)
    sleipnir.write("greeter", GREETER, {"greet.sh": GREET})

    done = sleipnir("run", "greeter", "Ada")

    assert (done.returncode, done.stdout) == (0, "friendly hello Ada\n")


def test_a_run_submitted_without_an_engine_waits_for_one(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path)
    sleipnir.write("greeter", GREETER, {"greet.sh": GREET})

    submitted = sleipnir("submit", "greeter", "Ada")
    run_id = submitted.stdout.strip()

    assert f"no engine is running; start one with `sleipnir watch {run_id}`" in submitted.stderr
    assert sleipnir("watch", run_id).stdout == "friendly hello Ada\n"
