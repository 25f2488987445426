"""Tools that ask a person before they change something, where people want to be asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.command_line import Sleipnir
from tests.support.conversations import converses, results
from tests.support.model_server import ModelServer, calls, says
from tests.support.supervising import collects_all, spawns
from tests.support.wait import wait_until

ASKED: Mapping[str, str] = {"SLEIPNIR_AUTO_CONFIRM": "false"}
SHED = """
model: openai:m
start: tidy
nodes:
  tidy: {type: llm, prompt: "Tidy {{initial_prompt}}.", tools: [burn, sort_out], next: done,
         state_updates: {said: "{{output}}"}}
  done: {type: end, output: "{{said}}"}
"""
TOOLS = r"""
source "$LLM_PROMPT_UTILS_FILE"

# @cmd Burn something.
# @option --what!
burn() {
    echo "looking at $argc_what"
    guard_operation "Burn the \"$argc_what\"?"
    echo "$argc_what" >> burnt
    echo "burnt" >> "$LLM_OUTPUT"
}

# @cmd Sort something out.
# @option --what!
sort_out() {
    echo "$argc_what" >> sorted
}
"""
SHEDS = """
model: openai:m
initial_state: {sheds: [left, right]}
start: tidy_all
nodes:
  tidy_all: {type: map, over: "{{sheds}}", as: shed, branch: tidy, collect_into: said, next: done}
  tidy: {type: llm, prompt: "Burn down the {{shed}} one.", tools: [burn]}
  done: {type: end, output: "{{said}}"}
"""
CHILD_OF = """
start: ask
nodes:
  ask: {type: agent, agent: shed, prompt: "{{initial_prompt}}", next: done,
        state_updates: {said: "{{output}}"}}
  done: {type: end, output: "{{said}}"}
"""


@pytest.fixture
def sleipnir(loki_machine: Sleipnir, server: ModelServer, tmp_path: Path) -> Sleipnir:
    """The command, with an agent whose model sorts one thing out and burns two."""
    loki_machine.write("shed", SHED, {"tools.sh": TOOLS})
    loki_machine.write("yard", CHILD_OF)
    loki_machine.write("sheds", SHEDS, {"tools.sh": TOOLS})
    converses(
        server,
        "Tidy",
        calls(("sort_out", {"what": "a"}), ("burn", {"what": "b"}), ("sort_out", {"what": "c"})),
        calls(("burn", {"what": "d"})),
        says("Tidied."),
    )
    for shed in ("left", "right"):
        converses(
            server, f"Burn down the {shed}", calls(("burn", {"what": shed})), says(f"{shed}: gone.")
        )
    return loki_machine


def parked(sleipnir: Sleipnir, prompt: str, workdir: Path, agent: str = "shed") -> str:
    """The id of a run that waits for consent."""
    done = sleipnir("run", agent, prompt, "--workdir", str(workdir), "--json", **ASKED)
    assert done.returncode == 4, done.stderr
    return str(json.loads(done.stdout)["run_id"])


def question(sleipnir: Sleipnir, run_id: str) -> str | None:
    """What a run wants a person to consent to."""
    asked = sleipnir.json("show", run_id)["question"]
    return asked and str(asked["text"])


def answered(sleipnir: Sleipnir, run_id: str, text: str, place: str | None = None) -> int:
    """Answer the question of a run at a place; return the exit code."""
    listed = [json.loads(line) for line in sleipnir("inbox", "--json").stdout.splitlines()]
    (asked,) = [
        each
        for each in listed
        if run_id in (each["run_id"], each["root_run_id"]) and place in (None, each["place"])
    ]
    return sleipnir("answer", run_id, "--question", asked["question_id"], text).returncode


def lines(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


def test_without_a_terminal_a_run_parks_and_says_how_to_answer(
    sleipnir: Sleipnir, tmp_path: Path
) -> None:
    done = sleipnir("run", "shed", "it", "--workdir", str(tmp_path), **ASKED)

    assert (done.returncode, done.stdout) == (4, "")
    assert '▸ tidy waiting: Burn the "b"?' in done.stderr
    assert "  call:\n  burn\n    what: b\n" in done.stderr
    assert "  options: yes, no\nanswer it with: sleipnir answer " in done.stderr
    assert (lines(tmp_path / "sorted"), lines(tmp_path / "burnt")) == (["a"], [])


def test_each_consent_is_asked_for_and_nothing_is_done_twice(
    sleipnir: Sleipnir, server: ModelServer, tmp_path: Path
) -> None:
    run_id = parked(sleipnir, "all of it", tmp_path)

    assert answered(sleipnir, run_id, "y") == 0
    wait_until(lambda: question(sleipnir, run_id) == 'Burn the "d"?', "the next consent is wanted")
    assert answered(sleipnir, run_id, "YES") == 0
    watched = sleipnir("watch", run_id)

    assert (watched.returncode, watched.stdout) == (0, "Tidied.\n")
    assert (lines(tmp_path / "sorted"), lines(tmp_path / "burnt")) == (["a", "c"], ["b", "d"])
    assert results(server, "Tidy all of it.")[1] == '{"output":"burnt\\n"}'
    assert sum("Tidy all of it." in request.text for request in server.requests) == 3


def test_the_call_is_shown_wherever_it_can_be_answered(sleipnir: Sleipnir, tmp_path: Path) -> None:
    run_id = parked(sleipnir, "it", tmp_path)

    listed = [json.loads(line) for line in sleipnir("inbox", "--json").stdout.splitlines()]
    (asked,) = [each for each in listed if each["run_id"] == run_id]

    assert asked["kind"] == "confirm"
    assert (asked["text"], asked["options"]) == ('Burn the "b"?', ["yes", "no"])
    assert asked["guarded_call"] == {"function": "burn", "arguments": {"what": "b"}}
    command = f"sleipnir answer {run_id} --question {asked['question_id']} yes\n"
    assert "  burn\n    what: b\n  consent with: " + command in sleipnir("inbox").stdout
    assert "  call:\n  burn\n    what: b\n" in (shown := sleipnir("show", run_id).stdout)
    assert f"  answer it with: {command}" in shown


@pytest.mark.parametrize("text", ["yes", "", "no"])
def test_an_answer_that_names_no_call_is_refused(
    sleipnir: Sleipnir, tmp_path: Path, text: str
) -> None:
    run_id = parked(sleipnir, "it", tmp_path)

    refused = sleipnir("answer", run_id, text)

    assert refused.returncode == 1
    assert refused.stderr.startswith(
        "error: consent to a guarded call must name its question:\nburn\n  what: b\n"
        f"answer it with: sleipnir answer {run_id} --question {run_id}/1/guard-"
    )
    assert question(sleipnir, run_id) == 'Burn the "b"?'


def test_an_answer_to_another_call_is_refused(sleipnir: Sleipnir, tmp_path: Path) -> None:
    run_id = parked(sleipnir, "it", tmp_path)
    first = sleipnir.json("show", run_id)["question"]["question_id"]
    sleipnir("answer", run_id, "--question", first, "no")
    wait_until(lambda: question(sleipnir, run_id) == 'Burn the "d"?', "the next consent is wanted")

    refused = sleipnir("answer", run_id, "--question", first, "yes")

    assert (refused.returncode, refused.stderr) == (
        1,
        f"error: question {first} is not open: it was answered or withdrawn, or never asked\n",
    )
    assert lines(tmp_path / "burnt") == []


def test_an_answer_that_is_neither_yes_nor_no_is_refused(
    sleipnir: Sleipnir, tmp_path: Path
) -> None:
    run_id = parked(sleipnir, "it", tmp_path)
    asked = sleipnir.json("show", run_id)["question"]["question_id"]

    refused = sleipnir("answer", run_id, "--question", asked, "perhaps")

    assert (refused.returncode, refused.stderr) == (
        1,
        "error: 'perhaps' is not a valid answer: expected yes or no\n",
    )


def test_what_is_declined_is_not_done_and_the_model_hears_of_it(
    sleipnir: Sleipnir, server: ModelServer, tmp_path: Path
) -> None:
    run_id = parked(sleipnir, "the least", tmp_path)

    answered(sleipnir, run_id, "no")
    wait_until(lambda: question(sleipnir, run_id) == 'Burn the "d"?', "the next consent is wanted")

    assert lines(tmp_path / "burnt") == []
    declined = json.loads(results(server, "Tidy the least.")[1])
    assert declined == {"tool_call_error": 'burn: declined by a person: Burn the "b"?'}


def test_a_childs_tool_is_consented_to_at_its_root(sleipnir: Sleipnir, tmp_path: Path) -> None:
    run_id = parked(sleipnir, "it", tmp_path, agent="yard")

    assert answered(sleipnir, run_id, "yes") == 0

    wait_until(lambda: lines(tmp_path / "burnt") == ["b"], "it was done")


def test_items_of_a_map_are_consented_to_one_by_one(sleipnir: Sleipnir, tmp_path: Path) -> None:
    run_id = parked(sleipnir, "", tmp_path, agent="sheds")

    refused = sleipnir("answer", run_id, "yes", "--node", "tidy")
    assert refused.stderr == (
        f"error: run {run_id} asks several questions (tidy_all/0, tidy_all/1); "
        "name one with --node\n"
    )
    assert answered(sleipnir, run_id, "no", "tidy_all/1") == 0
    assert answered(sleipnir, run_id, "yes") == 0

    assert sleipnir("watch", run_id).stdout == '["left: gone.","right: gone."]\n'
    assert lines(tmp_path / "burnt") == ["left"]


def test_a_headless_run_is_declined_at_once(
    sleipnir: Sleipnir, server: ModelServer, tmp_path: Path
) -> None:
    done = sleipnir("run", "shed", "no one", "--headless", "--workdir", str(tmp_path), **ASKED)

    assert (done.returncode, done.stdout) == (0, "Tidied.\n")
    assert lines(tmp_path / "burnt") == []
    assert "no person is available" in results(server, "Tidy no one.")[1]


def test_on_a_terminal_consent_is_asked_for_with_no_as_the_default(
    sleipnir: Sleipnir, tmp_path: Path
) -> None:
    terminal = sleipnir.on_terminal(
        *("run", "shed", "it", "--workdir", str(tmp_path)), TERM="xterm", **ASKED
    )

    terminal.wait_for("call:")
    terminal.wait_for("what: b")
    terminal.wait_for('? Burn the "b"?')
    terminal.wait_for("[y/N] > ")
    terminal.type("\n")
    terminal.wait_for('? Burn the "d"?')
    terminal.wait_for("[y/N] > ")
    terminal.type("never\n")
    terminal.wait_for("yes or no?")
    terminal.type("y\n")

    assert terminal.end() == (0, "Tidied.\n")
    assert lines(tmp_path / "burnt") == ["d"]


COMMANDER = """
model: openai:m
variables: [{name: auto_confirm, description: Whether to ask., default: "1"}]
global_tools: [execute_command]
"""


def write_normal(sleipnir: Sleipnir, name: str, config: str) -> None:
    """Write a normal agent whose `.env` tries to confirm everything, too."""
    directory = sleipnir.project / "agents" / name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.yaml").write_text(config)
    (directory / ".env").write_text("AUTO_CONFIRM=1\nLLM_AGENT_VAR_AUTO_CONFIRM=1\n")


def lets_remove(server: ModelServer, prompt: str, file: Path) -> None:
    converses(server, prompt, calls(("execute_command", {"command": f"rm {file}"})), says("Done."))


@pytest.mark.parametrize(
    ("flags", "code", "is_left"),
    [
        ((), 0, False),
        (("--ask",), 4, True),
        (("--ask", "--headless"), 0, True),
        (("--headless",), 0, False),
        (("--yes",), 0, False),
    ],
)
def test_to_ask_outweighs_an_agent_s_auto_confirm(
    sleipnir: Sleipnir,
    server: ModelServer,
    tmp_path: Path,
    flags: tuple[str, ...],
    code: int,
    is_left: bool,
) -> None:
    write_normal(sleipnir, "commander", COMMANDER)
    (workdir := tmp_path / "work").mkdir()
    (file := tmp_path / "file").touch()
    prompt = f"Remove {' '.join(flags)}."
    lets_remove(server, prompt, file)

    done = sleipnir("run", "commander", prompt, "--workdir", str(workdir), *flags)

    assert (done.returncode, file.exists()) == (code, is_left), done.stderr


CONFIRMS = 'variables: [{name: auto_confirm, description: Whether to ask., default: "1"}]\n'


@pytest.mark.parametrize(
    ("boss", "flags", "is_left"),
    [
        ("", (), True),
        ("", ("--yes",), False),
        (CONFIRMS, (), False),
        (CONFIRMS, ("--ask",), True),
    ],
    ids=["asks", "asks-yes", "confirms", "confirms-ask"],
)
def test_an_agent_gets_no_more_rights_by_a_child(
    sleipnir: Sleipnir,
    server: ModelServer,
    tmp_path: Path,
    boss: str,
    flags: tuple[str, ...],
    is_left: bool,
) -> None:
    write_normal(sleipnir, "boss", f"model: openai:m\ncan_spawn_agents: true\n{boss}")
    write_normal(sleipnir, "commander", COMMANDER)
    (workdir := tmp_path / "work").mkdir()
    (file := tmp_path / "file").touch()
    lead, order = f"Lead {boss} {flags}.", f"Remove for {boss} {flags}."
    converses(server, lead, spawns(order, agent="commander"), collects_all, says("Done."))
    lets_remove(server, order, file)

    done = sleipnir("run", "boss", lead, "--workdir", str(workdir), *flags)

    assert (done.returncode, file.exists()) == (4 if is_left else 0, is_left), done.stderr


def test_asking_and_confirming_at_once_is_refused(sleipnir: Sleipnir) -> None:
    done = sleipnir("run", "shed", "it", "--ask", "--yes")

    assert done.returncode == 2
    assert "--ask and --yes contradict each other" in done.stderr


def test_graphs_go_ahead_where_nobody_wants_to_be_asked(sleipnir: Sleipnir, tmp_path: Path) -> None:
    done = sleipnir("run", "shed", "it", "--workdir", str(tmp_path))

    assert (done.returncode, lines(tmp_path / "burnt")) == (0, ["b", "d"])


def test_validate_tells_which_nodes_use_such_tools_unasked(sleipnir: Sleipnir) -> None:
    told = sleipnir("validate", "shed", "--strict")
    document = json.loads(sleipnir("validate", "shed", "--strict", "--json").stdout)
    asked = json.loads(sleipnir("validate", "shed", "--json", **ASKED).stdout)

    assert told.returncode == 0
    assert (
        "guarded tools run without confirmation, unless run with --ask: tidy (burn)\n"
        in told.stderr
    )
    assert document["unasked"] == [{"node": "tidy", "tools": ["burn"]}]
    assert asked["unasked"] == []


def test_one_run_can_ask_where_others_do_not(sleipnir: Sleipnir, tmp_path: Path) -> None:
    where = ("--workdir", str(tmp_path))

    parked = sleipnir("run", "shed", "it", "--ask", *where)
    headless = sleipnir("run", "shed", "it", "--ask", "--headless", *where)

    assert parked.returncode == 4
    assert '▸ tidy waiting: Burn the "b"?' in parked.stderr
    assert headless.returncode == 0
    assert lines(tmp_path / "burnt") == []
