"""The script node, with real programs: what it gives them, and what it takes from them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sleipnir.scheduler.runs.model import Run
from sleipnir.worker.sandbox import child_process
from tests.support.engine import Engine
from tests.support.processes import is_alive
from tests.support.wait import wait_until

GRAPH = """
start: a
nodes:
  a: {type: script, script: a.sh, next: z}
  z: {type: end, output: "{{k}}"}
"""
ENVIRONMENT = "import json, os; print(json.dumps({'env': dict(os.environ), 'cwd': os.getcwd()}))"
LEAVES_A_STUBBORN_CHILD = """
    (trap '' TERM; echo $BASHPID > pid; exec sleep 60) &
    until test -s pid; do :; done
"""


def finish(engine: Engine, script: str, graph: str = GRAPH, **request: Any) -> Run:
    return engine.finish(graph, {"a.sh": script}, **request)


def state_after(engine: Engine, script: str, **request: Any) -> dict[str, Any]:
    return engine.state(finish(engine, script, **request).run_id)


def environment(engine: Engine, env_file: str = "", **request: Any) -> dict[str, str]:
    """What a script finds in its environment."""
    graph = GRAPH.replace("a.sh", "a.py")
    run = engine.finish(graph, {"a.py": ENVIRONMENT, ".env": env_file}, **request)
    found: dict[str, str] = engine.state(run.run_id)["env"]
    return found


def test_an_object_on_stdout_is_written_with_its_types(engine: Engine) -> None:
    printed = '{"k":[],"o":{},"n":9007199254740993,"f":1.0,"z":null,"t":true}'

    state = state_after(engine, f"echo; echo '{printed}'; echo done >&2")

    assert json.dumps({key: state[key] for key in "konfzt"}, separators=(",", ":")) == (
        '{"k":[],"o":{},"n":9007199254740993,"f":1.0,"z":null,"t":true}'
    )


def test_a_script_in_typescript_reads_the_state_and_prints_an_object(
    engine: Engine, node_modules: Path, tmp_path: Path
) -> None:
    workdir = tmp_path / "work"
    workdir.mkdir()
    (workdir / "node_modules").symlink_to(node_modules)
    script = """
        type State = { initial_prompt: string };
        const state: State = JSON.parse(process.env.GRAPH_STATE!);
        console.log(JSON.stringify({ k: `${state.initial_prompt}!`, _next: "z" }));
        """
    graph = GRAPH.replace("a.sh, next: z", "a.ts")

    run = engine.finish(graph, {"a.ts": script}, prompt="Ada", workdir=str(workdir))

    assert run.output == "Ada!"


@pytest.mark.parametrize(
    ("npx", "reason"),
    [
        ("echo 'npm error canceled' >&2; exit 1", "cannot start: npx found no tsx; install it"),
        ('echo "$npm_config_yes $2" >&2; exit 3', "exit code 3: false "),
    ],
)
def test_typescript_without_tsx_says_so_and_installs_nothing(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, npx: str, reason: str
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "npx").write_text(f"#!/bin/sh\n{npx}\n")
    (tmp_path / "bin" / "npx").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    run = engine.finish(GRAPH.replace("a.sh, next: z", "a.ts, next: z"), {"a.ts": ""})

    assert reason in engine.state(run.run_id)["error"]


def test_next_in_the_output_wins_and_is_not_written(engine: Engine) -> None:
    graph = GRAPH.replace("next: z", "next: y") + "  y: {type: end, output: wrong}\n"

    run = finish(engine, """echo '{"_next": "z", "k": "right"}'""", graph)

    assert run.output == "right"
    assert "_next" not in engine.state(run.run_id)


def test_a_null_next_is_none(engine: Engine) -> None:
    assert finish(engine, """echo '{"_next": null, "k": 1}'""").output == "1"


def test_a_byte_order_mark_before_the_output_is_skipped(engine: Engine) -> None:
    assert state_after(engine, r"""printf '\357\273\277{"k": 1}\n'""")["k"] == 1


def test_updates_win_over_what_was_printed(engine: Engine) -> None:
    graph = GRAPH.replace("next: z", 'next: z, state_updates: {k: "{{k}}{{k}}", j: "{{k}}"}')

    run = finish(engine, """echo '{"k": 2, "j": 0}'""", graph)

    assert engine.state(run.run_id) == {"initial_prompt": "", "j": "22", "k": "22"}


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo '{}'; echo oops >&2; exit 3", "exit code 3: oops"),
        ("echo '{}'; kill -KILL $$", "signal 9: "),
        ("true", "produced no output"),
        ("echo; echo", "produced no output"),
        ("echo '[1]'", "stdout is not a JSON object: it is a JSON list"),
        ("echo 5", "stdout is not a JSON object: it is a JSON scalar"),
        ("echo null", "stdout is not a JSON object: it is a JSON scalar"),
        ("""echo '{"k": NaN}'""", "stdout is not a JSON object: NaN is not a valid JSON number"),
        (
            """echo '{"k": 1e999}'""",
            "stdout is not a JSON object: 1e999 is not a valid JSON number",
        ),
        ("echo '{} done'", "stdout is not a JSON object: Extra data"),
        ("echo '{}{}'", "stdout is not a JSON object: Extra data"),
        ("""echo '{"_next": 5}'""", "invalid _next: expected a node id, got 5"),
        ("""echo '{"_next": ["z"]}'""", """invalid _next: expected a node id, got ["z"]"""),
    ],
)
def test_a_failure_is_kept_as_error_and_goes_to_next(
    engine: Engine, script: str, reason: str
) -> None:
    run = finish(engine, script)

    assert run.status == "succeeded"
    assert engine.state(run.run_id)["error"].startswith(f"Script node failed: {reason}")


def test_a_failure_goes_to_the_fallback_and_writes_nothing_else(engine: Engine) -> None:
    graph = GRAPH.replace("next: z", "next: z, fallback: f, state_updates: {k: updated}")
    graph += '  f: {type: end, output: "fallback: {{k}}"}\n'

    run = finish(engine, """echo '{"k": "printed"}'; exit 1""", graph)

    assert run.output == "fallback: "
    assert set(engine.state(run.run_id)) == {"initial_prompt", "error"}


def test_a_failure_with_nowhere_to_go_fails_the_run(engine: Engine) -> None:
    graph = GRAPH.replace(", next: z", "")

    run = finish(engine, "exit 7", graph)

    failure = engine.failure(run.run_id)
    assert (failure.code, failure.node) == ("R013", "a")
    assert "exit code 7" in failure.message


def test_no_route_at_all_is_r002(engine: Engine) -> None:
    run = finish(engine, "echo '{}'", GRAPH.replace(", next: z", ""))

    failure = engine.failure(run.run_id)
    assert (failure.code, failure.node) == ("R002", "a")


def test_a_next_that_names_no_node_fails_the_run(engine: Engine) -> None:
    run = finish(engine, """echo '{"_next": "gone", "k": 1}'""")

    failure = engine.failure(run.run_id)
    assert (failure.code, failure.node) == ("R003", "a")
    assert "k" not in engine.state(run.run_id)


def test_stderr_is_shown_by_its_end_and_kept_in_the_logs(engine: Engine) -> None:
    run = finish(engine, "printf 'x%.0s' {1..5000} >&2; echo end >&2; exit 1")

    error = engine.state(run.run_id)["error"]
    entry, failure = engine.queries.logs(run.run_id)
    assert failure["stream"] == "failure"
    assert len(error) == len("Script node failed: exit code 1: ") + 4_000
    assert error.endswith("xend")
    assert (entry["node"], entry["stream"], len(entry["text"])) == ("a", "stderr", 5_003)


def test_an_error_has_no_colours_of_what_was_printed_before_it(engine: Engine) -> None:
    run = finish(engine, "printf '\\033[31mlooking up\\033[0m stock' >&2; exit 1")

    assert engine.state(run.run_id)["error"].endswith("exit code 1: looking up stock")
    assert "\x1b[31m" in engine.queries.logs(run.run_id)[0]["text"]


def test_what_a_script_printed_in_place_of_an_object_is_kept_and_quoted(engine: Engine) -> None:
    run = finish(engine, "echo 'Loading rows'; yes | head -c 5000; echo end")

    entry, failure = engine.queries.logs(run.run_id)
    assert entry["stream"] == "stdout"
    assert entry["text"].startswith("Loading rows\ny\n")
    assert entry["text"].endswith("end")
    assert len(entry["text"]) < 2_100
    (kept,) = engine.queries.failures(run)
    assert "stdout is not a JSON object" in failure["text"]
    assert "; it printed: Loading rows\ny" in kept.message
    assert "Loading rows" not in engine.state(run.run_id)["error"]


def test_of_much_output_the_log_has_both_ends(engine: Engine) -> None:
    engine.configure(log_limit_bytes=128 * 1024, output_limit_bytes=512 * 1024)
    noisy = "echo FIRST >&2; yes | head -c 2000000 >&2; echo LAST >&2; echo '{\"output\": 1}'"
    graph = """
    initial_state: {all: %s}
    start: m
    nodes:
      m: {type: map, over: "{{all}}", as: item, branch: b, collect_into: found, next: z}
      b: {type: script, script: a.sh}
      z: {type: end, output: done}
    """ % [1, 2, 3]

    run = engine.finish(graph, {"a.sh": noisy})

    entries = engine.queries.logs(run.run_id)
    assert all(entry["text"].startswith("FIRST\ny\n") for entry in entries)
    assert all(entry["text"].endswith("\nLAST") for entry in entries)
    assert "bytes left out]" in entries[0]["text"]
    assert [len(entry["text"]) // 100 for entry in entries] == 3 * [20]


def test_a_value_that_can_be_read_but_not_written_ends_the_run(engine: Engine) -> None:
    # How deep that is depends on the interpreter: somewhere here.
    script = "echo '{\"k\": %s%s}'"

    for depth in range(930, 970):
        run = finish(engine, script % ("[" * depth, "]" * depth))
        assert run.is_final, f"{depth} levels"


def test_bytes_that_are_no_utf_8_are_replaced(engine: Engine) -> None:
    assert finish(engine, r"""printf '{"k": "a\xff"}'""").output == "a\ufffd"


def test_too_much_output_ends_the_program(engine: Engine) -> None:
    engine.configure(output_limit_bytes=1_000)

    run = finish(engine, "yes", GRAPH.replace("k}", "error}"))

    assert run.output == "Script node failed: stdout too large"


def test_a_program_that_cannot_be_started_is_a_failure(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    run = finish(engine, "true", GRAPH.replace("k}", "error}"))

    assert run.output == "Script node failed: cannot start: No such file or directory"


# ---- time limits


def test_a_timeout_of_zero_is_none(engine: Engine) -> None:
    graph = GRAPH.replace("next: z", "next: z, timeout: 0")

    run = finish(engine, """echo '{"k": "done"}'""", graph)

    assert run.output == "done"


def test_a_timeout_ends_grandchildren_that_ignore_it(engine: Engine, tmp_path: Path) -> None:
    graph = GRAPH.replace("next: z", "next: z, timeout: 0.3").replace("k}", "error}")

    run = finish(engine, LEAVES_A_STUBBORN_CHILD + "    wait", graph, workdir=str(tmp_path))

    assert run.output == "Script node failed: timed out after 0.3s"
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not is_alive(pid), "the grandchild is gone")


def test_a_timeout_ends_a_program_that_ignores_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "GRACE_S", 0.05)
    graph = GRAPH.replace("next: z", "next: z, timeout: 0.2").replace("k}", "error}")

    run = finish(engine, "trap '' TERM; while :; do read -t 1 <> <(:); done", graph)

    assert run.output == "Script node failed: timed out after 0.2s"


def test_what_a_program_leaves_running_neither_delays_nor_outlives_it(
    engine: Engine, tmp_path: Path
) -> None:
    script = LEAVES_A_STUBBORN_CHILD + """    echo '{"k": "done"}'"""

    run = finish(engine, script, workdir=str(tmp_path))

    assert run.output == "done"
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not is_alive(pid), "the grandchild is gone")


def test_a_script_has_its_whole_time_again_after_a_lost_worker(engine: Engine) -> None:
    run_id = engine.submit(GRAPH, {"a.sh": """echo '{"k": "in time"}'"""})
    engine.begin(run_id, "1/a")
    engine.pop()
    engine.clock.move(3600)
    engine.tick()

    engine.drive()

    assert engine.run(run_id).output == "in time"


# ---- what the program is given


def test_the_state_travels_in_the_environment(engine: Engine) -> None:
    found = environment(engine, prompt="ключ\n", state={"n": 1.0, "l": []})

    assert found["GRAPH_STATE"] == '{"initial_prompt":"ключ\\n","l":[],"n":1.0}'
    assert "GRAPH_STATE_FILE" not in found


@pytest.mark.parametrize("spare", [0, -1])
def test_a_large_state_travels_in_a_file(engine: Engine, spare: int) -> None:
    # '{"initial_prompt":""}' takes 21 bytes, each letter two.
    prompt = "я" * ((32_768 - 21) // 2) + "x" * (1 - spare)
    script = """
        echo "{\\"inline\\": ${#GRAPH_STATE}, \\"file\\": \\"$GRAPH_STATE_FILE\\",
               \\"bytes\\": $(cat ${GRAPH_STATE_FILE:-/dev/null} | wc -c)}"
        """

    state = state_after(engine, script, prompt=prompt)

    if spare < 0:
        assert (state["inline"], state["bytes"]) == (0, 32_769)
        assert not Path(state["file"]).exists()
    else:
        assert (state["inline"] > 0, state["file"], state["bytes"]) == (True, "", 0)


def test_only_allowed_variables_of_the_worker_get_through(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "GRAPH_STATE_FILE", "LC_PAPER", "WANTED", "https_proxy"):
        monkeypatch.setenv(name, "of the worker")
    engine.configure(tool_env=("WANTED",))

    found = environment(engine)

    assert {"OPENAI_API_KEY", "GRAPH_STATE_FILE"}.isdisjoint(found)
    assert found["LC_PAPER"] == found["WANTED"] == found["https_proxy"] == "of the worker"


def test_the_agent_s_env_file_fills_what_is_not_set(engine: Engine) -> None:
    found = environment(
        engine, "export TOKEN='a b'\n# no\nPATH=/wrong\nNO_COLOR=0\nGRAPH_STATE=fake\n"
    )

    assert found["TOKEN"] == "a b"
    assert found["PATH"] != "/wrong"
    assert (found["NO_COLOR"], found["AUTO_CONFIRM"]) == ("1", "true")
    assert found["GRAPH_STATE"] != "fake"


def test_variables_and_identity_are_in_the_environment(engine: Engine) -> None:
    graph = "variables: [{name: api-url, default: 5, description: d}]\n" + GRAPH
    run = engine.finish(graph.replace("a.sh", "a.py"), {"a.py": ENVIRONMENT})

    found = engine.state(run.run_id)["env"]

    assert found["LLM_AGENT_VAR_API_URL"] == "5"
    assert (found["SLEIPNIR_RUN_ID"], found["SLEIPNIR_NODE_ID"]) == (run.run_id, "a")
    assert found["SLEIPNIR_IDEMPOTENCY_KEY"] == f"{run.run_id}:1/a"
    assert (Path(found["LLM_AGENT_DATA_DIR"]) / "graph.yaml").is_file()
    # Not the very first where `python3` itself is a wrapper that puts its own in front.
    assert f"{found['LLM_ROOT_DIR']}/functions/bin" in found["PATH"].split(":")


def test_programs_run_where_the_run_was_submitted(engine: Engine, tmp_path: Path) -> None:
    script = """echo "{\\"k\\": \\"$(pwd)\\"}" """

    there = finish(engine, script, workdir=str(tmp_path)).output
    elsewhere = finish(engine, script, workdir="/not/on/this/machine")

    assert there == str(tmp_path)
    assert elsewhere.output == str(engine.services.scratch / elsewhere.run_id)
    assert not Path(elsewhere.output).exists()


def test_the_key_of_a_visit_does_not_depend_on_the_try(engine: Engine, tmp_path: Path) -> None:
    script = """echo "$SLEIPNIR_IDEMPOTENCY_KEY" >> keys; echo '{}'"""
    run_id = engine.submit(GRAPH, {"a.sh": script}, workdir=str(tmp_path))
    lease = engine.begin(run_id, "1/a")
    engine.store.visits.requeue(lease)

    engine.drive()

    assert (tmp_path / "keys").read_text().splitlines() == [f"{run_id}:1/a"]


def test_a_script_over_a_limit_says_which(engine: Engine) -> None:
    engine.configure(program_cpu_s=1)

    run = finish(engine, "while :; do :; done", GRAPH.replace("{{k}}", "{{error}}"))

    assert run.output is not None
    assert "exceeded 1 s of CPU time (program_cpu_s): signal 24" in run.output
