"""Calls in batches of providers, as commands start them, stop them and talk about them."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import TIME_LIMIT_S, Sleipnir
from tests.support.model_server import ModelServer, says
from tests.support.wait import wait_until

SORT = """
model: own:m
start: sort
nodes:
  sort: {type: llm, prompt: "{{initial_prompt}}", next: done, state_updates: {kind: "{{output}}"}}
  done: {type: end, output: "{{kind}}"}
"""
WARNED = "W033 the provider of deepseek:m has no batches here: it is called live"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        server.script.when(lambda _: True, says("bill"))
        yield server


@pytest.fixture
def sleipnir(tmp_path: Path, server: ModelServer) -> Sleipnir:
    """The command without an engine, with agents that do and do not wait for batches."""
    command = Sleipnir(tmp_path)
    command.write("sort", SORT)
    command.write("short", SORT.replace("next: done", "next: done, max_tokens: 5"))
    command.write("elsewhere", SORT.replace("own:m", "deepseek:m"))
    for name in ("sort", "elsewhere"):
        evals = command.project / "agents" / name / "evals"
        evals.mkdir()
        (evals / "golden.yaml").write_text(
            'rows: golden.csv\nchecks: [{name: kind, is: "output == row.expected"}]\n'
        )
        (evals / "golden.csv").write_text("id,prompt,expected\na,one,bill\nb,two,letter\n")
    (command.project / "in.txt").write_text("one\ntwo\n")
    providers = {
        "own": {"api_base": server.base_url, "batch": {"send_after_s": 1}},
        "deepseek": {"api_base": server.base_url, "api_key": "sk-only-for-this-test"},
    }
    prices = {model: {"prompt": 1.0, "completion": 4.0} for model in ("own:m", "deepseek:m")}
    config = Path(command.environment["SLEIPNIR_CONFIG_DIR"])
    config.mkdir(exist_ok=True)
    (config / "config.yaml").write_text(
        json.dumps({"models": {"providers": providers, "prices": prices}})
    )
    return command


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_a_batch_that_ends_early_says_when_its_answers_are_fetched(
    sleipnir: Sleipnir, server: ModelServer, by: signal.Signals
) -> None:
    batch = sleipnir.start("batch", "sort", "in.txt", "--economy", "--name", by.name)
    wait_until(lambda: server.batches.batches, "the batch is sent", TIME_LIMIT_S)

    batch.send_signal(by)
    _, said = batch.communicate(timeout=TIME_LIMIT_S)

    assert "answers of provider batches are fetched whenever an engine runs" in said
    assert not server.requests


def test_commands_say_which_models_are_called_live(sleipnir: Sleipnir) -> None:
    batch = sleipnir("batch", "elsewhere", "in.txt", "--economy", "--detach")
    submitted = sleipnir("submit", "elsewhere", "one", "--economy")
    silent = sleipnir("submit", "sort", "one", "--economy")
    evaluated = sleipnir("eval", "elsewhere", "--baseline", "elsewhere", "--economy")

    for done in (batch, submitted, evaluated):
        assert (done.returncode, done.stderr.count(WARNED)) == (0, 1), done.stderr
    assert (silent.returncode, "W033" in silent.stderr) == (0, False)


def test_what_must_not_be_called_live_is_refused(sleipnir: Sleipnir) -> None:
    only = ("--economy", "--economy-only")
    batch = sleipnir("batch", "elsewhere", "in.txt", "--detach", *only)
    submitted = sleipnir("submit", "elsewhere", "one", *only)
    alone = sleipnir("submit", "sort", "one", "--economy-only")

    for refused in (batch, submitted):
        assert refused.returncode == 2
        assert "the provider of deepseek:m has no batches here, so nothing was" in refused.stderr
    assert (alone.returncode, "--economy-only needs --economy" in alone.stderr) == (2, True)
    assert sleipnir("ps", "--all", "--json").stdout == ""


def test_with_a_budget_the_command_says_once_that_long_replies_hold_it(sleipnir: Sleipnir) -> None:
    call = ("in.txt", "--economy", "--budget", "1", "--detach")
    hint = "set max_tokens of llm node 'sort' of sort"

    assert sleipnir("batch", "sort", *call, "--name", "long").stderr.count(hint) == 1
    assert "max_tokens" not in sleipnir("batch", "short", *call).stderr
    assert "max_tokens" not in sleipnir("submit", "sort", "one", "--economy").stderr


def test_rows_of_an_evaluation_wait_for_a_batch(sleipnir: Sleipnir, server: ModelServer) -> None:
    evaluation = sleipnir.start("eval", "sort", "--economy", "--json")
    wait_until(lambda: server.batches.batches, "the batch is sent", TIME_LIMIT_S)
    (batch,) = server.batches.batches.values()
    assert len(batch.lines) == 2
    assert not server.requests

    made = sleipnir("limits", "--live", batch.batch_id)
    printed, said = evaluation.communicate(timeout=TIME_LIMIT_S)

    assert made.returncode == 0, made.stderr
    assert evaluation.returncode == 0, said
    (version,) = json.loads(printed)["versions"]
    assert (version["rows"], version["failed"], version["checks"]["kind"]["mean"]) == (2, 0, 0.5)
    assert len(server.requests) == 2
