"""`sleipnir test`: cases pass or fail with their reasons, and ask no model."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from tests.support.command_line import Sleipnir
from tests.support.model_server import ModelServer, says
from tests.support.pages import blocks

SORTER = """
model: openai:m
initial_state: {seen: {by: nobody, at: null}}
start: sort
nodes:
  sort: {type: llm, prompt: "Sort {{initial_prompt}}", fallback: words, next: ask,
         state_updates: {kind: "{{output}}"}}
  words: {type: script, script: words.sh, next: ask}
  ask: {type: input, question: Sure?, next: done, state_updates: {sure: "{{input}}"}}
  done: {type: end, output: "{{kind}}, {{sure}}"}
"""
WORDS = """\
#!/bin/bash
echo '{"kind": "by words"}'
"""
PASSING = """
name: a model sorts
prompt: mail
replies: {sort: spam}
answers: {ask: sure}
expect:
  route: [sort, ask, done]
  visits: {words: 0}
  state: {seen: {by: nobody}, kind: spam}
  output: spam, sure
  cost: {max_usd: 0}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        server.when("Sort", says("ham"))
        server.when("Please pay", says("bill"))
        yield server


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, server: ModelServer) -> Iterator[Sleipnir]:
    """An engine whose workers could ask a model."""
    command = Sleipnir(
        tmp_path_factory.mktemp("tests"), OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="sk-12345"
    )
    with command.up():
        yield command


@pytest.fixture
def sleipnir(engine: Sleipnir) -> Sleipnir:
    """The command, and an agent whose tests hold nothing yet."""
    tests = engine.write("sorter", SORTER, {"words.sh": WORDS}) / "tests"
    tests.mkdir(exist_ok=True)
    for file in tests.iterdir():
        file.unlink()
    return engine


def write(sleipnir: Sleipnir, **files: str) -> Path:
    """Write files of cases; returns their directory."""
    tests = sleipnir.project / "agents" / "sorter" / "tests"
    for name, text in files.items():
        (tests / f"{name}.yaml").write_text(dedent(text).lstrip("\n"))
    return tests


def failing(expect: str, given: str = "replies: {sort: spam}, answers: {ask: sure}") -> str:
    return f"name: wrong\nprompt: mail\n{{}}\nexpect: {{{expect}}}\n".replace(
        "{}", "\n".join(given.split(", "))
    )


# ---- how it ends


def test_cases_that_pass_end_with_zero_and_a_count(sleipnir: Sleipnir) -> None:
    write(sleipnir, one=PASSING, two=PASSING)

    done = sleipnir("test", "sorter")

    dots, summary = done.stdout.splitlines()
    assert (done.returncode, dots, done.stderr) == (0, "..", "")
    assert summary.startswith("2 passed in ")


@pytest.mark.parametrize(
    ("expect", "problem"),
    [
        ("status: failed", "status: expected failed, got succeeded"),
        ("error: R013", "status: expected failed, got succeeded"),
        ("route: [sort, done]", "route: - expected, + got\nE      sort\nE    + ask\nE      done"),
        ("visits: {words: 2}", "visits of 'words': expected 2, got 0"),
        ("visits: {wrods: 0}", "visits of 'wrods': there is no such node"),
        ("state: {kind: ham}", 'state.kind: expected "ham", got "spam"'),
        ("state: {seen: {at: 1}}", "state.seen.at: expected 1, got null"),
        ("state: {other: 1}", "state.other: expected 1, but it is missing"),
        ("output: 'ham, sure'", "output: - expected, + got\nE    - ham, sure\n"),
        ("output: {contains: ham}", 'output: expected it to contain "ham", got "spam, sure"'),
        ("output: {matches: '^ham'}", "output: expected it to match ^ham"),
        ("output: {schema: {type: object}}", "output: expected JSON"),
    ],
)
def test_a_case_that_fails_says_why(sleipnir: Sleipnir, expect: str, problem: str) -> None:
    tests = write(sleipnir, one=failing(expect))

    done = sleipnir("test", "sorter")

    assert done.returncode == 1
    assert done.stdout.startswith("F\n")
    assert f"\n{tests}/one.yaml:1: run " in done.stdout
    assert f"E  {problem}" in done.stdout
    assert "1 failed in " in done.stdout


CHAIN = """
model: openai:m
initial_state: {items: [1, 2]}
start: each
nodes:
  each: {type: map, over: "{{items}}", as: item, branch: draft, collect_into: all, next: done}
  draft: {type: llm, prompt: "Draft {{item}}", state_updates: {text: "{{output}}"}, next: check}
  check: {type: llm, prompt: "Check {{text}}"}
  done: {type: end, output: "{{all}}"}
"""
OF_CHAIN = """
name: each item is drafted and checked
replies: {draft: a draft, check: checked}
expect:
  route: [each, done]
  visits: {each: 1, draft: 2, check: 2}
  output: '["checked","checked"]'
"""


def test_cases_know_the_nodes_of_a_chain(sleipnir: Sleipnir) -> None:
    tests = sleipnir.write("drafter", CHAIN) / "tests"
    tests.mkdir()
    (tests / "one.yaml").write_text(OF_CHAIN)

    done = sleipnir("test", "drafter")

    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "."), done.stdout


def test_a_model_is_never_asked(sleipnir: Sleipnir, server: ModelServer) -> None:
    write(sleipnir, one="name: wrong\nanswers: {ask: sure}\n")
    asked = len(server.requests)

    done = sleipnir("test", "sorter")

    # The run itself went on, by the fallback.
    assert done.returncode == 1
    assert (
        "E  model call without a reply: node 'sort': no reply matches this request" in done.stdout
    )
    assert "write some under `replies`, or name a `replay`" in done.stdout
    assert len(server.requests) == asked


def test_a_case_may_expect_a_run_to_wait_or_to_fail(sleipnir: Sleipnir) -> None:
    write(
        sleipnir,
        one="""
            cases:
              - name: it waits
                replies: [spam]
                expect: {status: waiting, route: [sort, ask]}
              - name: a model that is down
                replies: [{error: HTTP 503}]
                answers: {ask: sure}
                expect: {route: [sort, words, ask, done], state: {kind: by words}}
        """,
    )

    done = sleipnir("test", "sorter")

    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "..")
    assert sleipnir("inbox").stdout == ""


# ---- which cases


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        ((), ["one::first", "one::second", "two::third"]),
        (("second",), ["one::second"]),
        (("one::first", "two.yaml"), ["one::first", "two::third"]),
        (("-k", "IR"), ["one::first", "two::third"]),
        (("one", "-k", "sec"), ["one::second"]),
    ],
)
def test_cases_are_chosen_by_name_file_or_text(
    sleipnir: Sleipnir, arguments: tuple[str, ...], ids: list[str]
) -> None:
    case = "replies: [spam], expect: {status: waiting}"
    write(
        sleipnir,
        one=f"cases: [{{name: first, {case}}}, {{name: second, {case}}}]",
        two=f"{{name: third, {case}}}",
    )

    document = sleipnir.json("test", "sorter", *arguments)

    assert [case["id"] for case in document["cases"]] == ids
    assert (document["passed"], document["failed"]) == (len(ids), 0)


def test_a_case_that_cannot_be_submitted_fails_alone(sleipnir: Sleipnir) -> None:
    write(sleipnir, one="name: wrong\nvars: {no: such}\n", two=PASSING)

    done = sleipnir("test", "sorter")

    assert (done.returncode, done.stdout.splitlines()[0]) == (1, "F.")
    assert "E  agent 'sorter' declares no variable 'no'" in done.stdout


def test_exitfirst_cancels_what_is_under_way(sleipnir: Sleipnir) -> None:
    graph = "start: nap\nnodes:\n  nap: {type: script, script: nap.sh, next: z}\n  z: {type: end}\n"
    nap = "#!/bin/bash\nsleep $(echo $GRAPH_STATE | tr -dc 0-9)\necho '{}'\n"
    tests = sleipnir.write("napper", graph, {"nap.sh": nap}) / "tests"
    tests.mkdir()
    short = "{name: short, state: {n: 0}, expect: {status: failed}}"
    (tests / "naps.yaml").write_text(f"cases: [{short}, {{name: long, state: {{n: 60}}}}]")

    done = sleipnir("test", "napper", "-x")

    assert done.stdout.startswith("F\n")
    runs = sleipnir("ps", "--agent", "napper", "--json").stdout.splitlines()
    assert sorted(json.loads(run)["status"] for run in runs) == ["cancelled", "succeeded"]


def test_an_interruption_tells_how_far_it_came(sleipnir: Sleipnir) -> None:
    graph = "start: nap\nnodes:\n  nap: {type: script, script: nap.sh, next: z}\n  z: {type: end}\n"
    nap = "#!/bin/bash\nsleep $(echo $GRAPH_STATE | tr -dc 0-9)\necho '{}'\n"
    tests = sleipnir.write("dozer", graph, {"nap.sh": nap}) / "tests"
    tests.mkdir()
    (tests / "naps.yaml").write_text(
        "cases: [{name: short, state: {n: 0}}, {name: long, state: {n: 60}}]"
    )
    testing = sleipnir.start("test", "dozer", "-v")
    assert testing.stdout is not None
    assert "PASSED" in testing.stdout.readline()

    testing.send_signal(signal.SIGINT)
    _, said = testing.communicate(timeout=90)

    assert testing.returncode == 130
    assert "interrupted after 1 of 2 cases, 0 failed" in said
    runs = sleipnir("ps", "--agent", "dozer", "--json").stdout.splitlines()
    assert sorted(json.loads(run)["status"] for run in runs) == ["cancelled", "succeeded"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("nobody",), "no agent named 'nobody'"),
        (("sorter", "no"), "agent 'sorter' has no case 'no' (it has: one::a model sorts)"),
        (("sorter", "-k", "no"), "none of 1 cases of agent 'sorter' matches"),
    ],
)
def test_naming_what_is_not_there_is_a_usage_error(
    sleipnir: Sleipnir, arguments: tuple[str, ...], problem: str
) -> None:
    write(sleipnir, one=PASSING)

    refused = sleipnir("test", *arguments)

    assert (refused.returncode, refused.stdout) == (2, "")
    assert problem in refused.stderr


def test_an_agent_without_cases_is_a_usage_error(sleipnir: Sleipnir) -> None:
    refused = sleipnir("test", "sorter")

    assert refused.returncode == 2
    assert "agent 'sorter' has no test cases: add some to " in refused.stderr


def test_mistakes_in_a_file_are_found_before_anything_runs(sleipnir: Sleipnir) -> None:
    tests = write(sleipnir, one="name: x\nprompt: 5\nexpect: {rout: [a]}\n", two=PASSING)

    refused = sleipnir("test", "sorter")

    file = tests / "one.yaml"
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"{file}:2:1: E008 one.prompt: expected a string, got 5" in refused.stderr
    assert (
        f"{file}:3:10: E006 unknown field 'rout' in one.expect\n  hint: did you mean 'route'?"
        in refused.stderr
    )


# ---- recordings


def test_a_recording_is_made_once_and_replayed_from_then_on(
    sleipnir: Sleipnir, server: ModelServer
) -> None:
    case = "name: real\nprompt: post\nreplay: tests/real.jsonl\nanswers: {ask: sure}\n"
    tests = write(sleipnir, one=f"{case}expect: {{output: 'ham, sure'}}\n")
    missing = sleipnir("test", "sorter")
    asked = len(server.requests)

    recorded = sleipnir("test", "sorter", "--record")
    replayed = sleipnir("test", "sorter")

    assert "make it with --record" in missing.stdout
    assert (recorded.returncode, replayed.returncode) == (0, 0), recorded.stdout + replayed.stdout
    assert len(server.requests) == asked + 1
    assert (tests / "real.jsonl").read_text().count("\n") == 1


def test_a_changed_prompt_fails_with_the_difference(sleipnir: Sleipnir) -> None:
    case = "name: real\nprompt: post\nreplay: tests/real.jsonl\nanswers: {ask: sure}\n"
    write(sleipnir, one=case)
    sleipnir("test", "sorter", "--record")
    sleipnir.write("sorter", SORTER.replace("Sort {{", "Sort now {{"))

    done = sleipnir("test", "sorter")

    assert done.returncode == 1
    assert "E    -Sort post\nE    +Sort now post\n" in done.stdout


def test_a_failed_call_leaves_the_recording_as_it_was(
    sleipnir: Sleipnir, server: ModelServer
) -> None:
    case = "name: real\nprompt: post\nreplay: tests/real.jsonl\nanswers: {ask: sure}\n"
    tests = write(sleipnir, one=case)
    (tests / "real.jsonl").write_text("as it was")
    sleipnir.write("sorter", SORTER.replace("Sort {{", "Nobody answers {{"))

    done = sleipnir("test", "sorter", "--record")

    assert "nothing was recorded: node 'sort' got no reply: HTTP 500" in done.stdout
    assert (tests / "real.jsonl").read_text() == "as it was"


# ---- what comes along


@pytest.mark.parametrize(
    "template",
    ["approval", "classify", "extract", "judge", "llm", "rag", "research", "script", "tools"],
)
def test_a_new_agent_passes_its_tests(engine: Sleipnir, tmp_path: Path, template: str) -> None:
    directory = str(tmp_path / "mine")
    engine("init", directory, "--template", template)

    done = engine("test", directory)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_documented_agent_passes_its_tests(engine: Sleipnir) -> None:
    graph, cases, *_ = blocks("testing-agents.md", "yaml")
    directory = engine.project / "agents" / "mail"
    (directory / "tests").mkdir(parents=True)
    (directory / "graph.yaml").write_text(graph)
    (directory / "tests" / "sorting.yaml").write_text(cases)

    running, recording, *_ = blocks("testing-agents.md", "sh")
    tested = engine.type_in(running, engine.project)
    run = engine.type_in(recording, engine.project)

    dots = [line for line in tested.stdout.splitlines() if not line.strip(".")]
    assert (tested.returncode, dots) == (0, ["..", "..", "."]), tested.stdout
    assert "a bill that a person agrees to" in tested.stdout
    assert (run.returncode, run.stdout.splitlines().count("bill")) == (0, 2), run.stdout
