"""Many questions answered by one command: the same for a batch's node, or each from a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sleipnir.scheduler.cli.app import cli
from tests.support.engine import Engine
from tests.support.redis_server import RedisServer

GRAPH = """
start: review
nodes:
  review:
    type: approval
    question: "Refund {{initial_prompt}}?"
    options: [refund, deny]
    routes: {refund: z, deny: z}
    on_other: z
    state_updates: {said: "{{choice}}"}
  z: {type: end, output: "{{said}}"}
"""


@pytest.fixture
def asked(engine: Engine) -> list[str]:
    """Runs of a batch's items a, b and c, all of which ask, and one of no batch."""
    runs = [
        engine.finish(GRAPH, prompt=item, batch="night", item=item).run_id
        for item in ("a", "b", "c")
    ]
    return [*runs, engine.finish(GRAPH, prompt="d").run_id]


def answer(redis_server: RedisServer, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["answer", "--redis", redis_server.url, *arguments])


def outputs(engine: Engine, run_ids: list[str]) -> list[str | None]:
    engine.drive()
    return [engine.run(run_id).output for run_id in run_ids]


def test_a_batch_s_node_gets_one_answer(
    engine: Engine, redis_server: RedisServer, asked: list[str]
) -> None:
    unsure = answer(redis_server, "--batch", "night", "--node", "review", "Refund")
    untouched = outputs(engine, asked)
    done = answer(redis_server, "--batch", "night", "--node", "review", "Refund ", "--yes")

    assert unsure.exit_code == 2
    assert "3 of tested: review get 'refund'" in unsure.stderr
    assert untouched == [None] * 4
    assert (done.exit_code, "3 of 3 answered" in done.stderr) == (0, True)
    assert outputs(engine, asked) == ["refund"] * 3 + [None]


def test_what_is_no_option_is_said(redis_server: RedisServer, asked: list[str]) -> None:
    done = answer(redis_server, "--batch", "night", "--node", "review", "refnud")

    assert "get 'refnud', none of its options (refund, deny)" in done.stderr


def test_each_line_of_a_file_answers_its_question(
    engine: Engine, redis_server: RedisServer, asked: list[str], tmp_path: Path
) -> None:
    (file := tmp_path / "answers.csv").write_text("item,answer,why\nc,DENY,x\na,refund,\nz,deny,\n")
    (others := tmp_path / "others.csv").write_text(f"run_id,node,answer\n{asked[3]},review,deny\n")

    done = answer(redis_server, "--from", str(file), "--batch", "night", "--yes", "--json")
    rest = answer(redis_server, "--from", str(others), "--yes")

    problem = f"{file}:4: no such question is open"
    assert (done.exit_code, rest.exit_code) == (1, 0)
    assert json.loads(done.stdout) == {"answered": 2, "problems": [problem]}
    assert problem in done.stderr
    assert outputs(engine, asked) == ["refund", None, "deny", "deny"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("id,answer\n1,x\n", "its columns must be `answer` and one of"),
        ("item\na\n", "its columns must be `answer` and one of"),
        ("item,answer\na,x\n", "item together with --batch"),
        ("run_id,answer\na\n", "answers.csv:2: the line has not as many cells"),
        ("run_id,answer\na,b,c\n", "answers.csv:2: the line has not as many cells"),
        ("", "it has: none"),
    ],
)
def test_a_file_that_names_no_questions_is_refused(
    redis_server: RedisServer, engine: Engine, tmp_path: Path, text: str, reason: str
) -> None:
    (file := tmp_path / "answers.csv").write_text(text)

    done = answer(redis_server, "--from", str(file), "--yes")

    assert done.exit_code == 2
    assert reason in " ".join(done.stderr.split())


def test_the_inbox_tells_batch_and_item(redis_server: RedisServer, asked: list[str]) -> None:
    listed = CliRunner().invoke(cli, ["inbox", "--json", "--redis", redis_server.url])

    documents = [json.loads(line) for line in listed.stdout.splitlines()]
    assert {each["run_id"]: (each["batch"], each["item"]) for each in documents} == {
        **{run_id: ("night", item) for run_id, item in zip(asked, "abc", strict=False)},
        asked[3]: (None, None),
    }
