"""`trigger` by commands: what they change, print and warn of."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.store.audit.log import AuditLog
from tests.support.engine import Engine
from tests.support.hooks import hook_key
from tests.support.redis_server import RedisServer

GRAPH = "start: done\nnodes: {done: {type: end, output: fine}}"


@pytest.fixture
def trigger(
    redis_server: RedisServer, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Result]]:
    """Run `sleipnir trigger` on the engine."""
    monkeypatch.setenv("SLEIPNIR_HOOK_KEY_FILE", hook_key(tmp_path))
    here = engine.write("triage", GRAPH).parent

    def run(verb: str, *words: str) -> Result:
        places = ["--redis", redis_server.url, "--agents-dir", str(here)]
        return CliRunner().invoke(cli, ["trigger", verb, *places, *words])

    yield run
    engine.redis.flushall()


def test_an_agent_that_is_not_here_is_warned_of(
    trigger: Callable[..., Result], engine: Engine
) -> None:
    known, unknown = trigger("create", "known", "triage"), trigger("create", "unknown", "triagge")
    changed = trigger("edit", "known", "--agent", "triagge")

    assert "warning" not in known.stderr
    for result in (unknown, changed):
        assert "warning: no agent named 'triagge'" in result.stderr
        assert "the monitor's machine has to have it" in result.stderr
    assert [len(each.stdout.split()) for each in (known, unknown)] == [1, 1]
    assert [each.name for each in engine.client.triggers.list()] == ["known", "unknown"]


def test_a_trigger_is_changed_and_its_secret_rotated(
    trigger: Callable[..., Result], engine: Engine
) -> None:
    made = trigger("create", "issues", "triage", "--set", "a={{body.a}}", "--batch", "inbox")
    changed = trigger("edit", "issues", "--prompt", "{{body.b}}", "--key", "{{body.id}}", "--json")
    freed = trigger("edit", "issues", "--key", "", "--batch", "", "--json")
    rotated = trigger("rotate", "issues", "--keep", "1h")
    shown = trigger("show", "issues")

    assert json.loads(changed.stdout)["set"] == {"a": "{{body.a}}"}
    assert (json.loads(changed.stdout)["batch"], json.loads(changed.stdout)["key"]) == (
        "inbox",
        "{{body.id}}",
    )
    assert (json.loads(freed.stdout)["batch"], json.loads(freed.stdout)["key"]) == (None, None)
    assert made.stdout != rotated.stdout != ""
    assert "secrets  two, while one is rotated" in shown.stdout
    acts = [entry.act.act for entry in AuditLog(engine.store.client).newest(10).entries]
    assert acts == ["trigger rotate", "trigger edit", "trigger edit", "trigger create"]


def test_nothing_is_changed_by_nothing(trigger: Callable[..., Result]) -> None:
    trigger("create", "issues", "triage")

    results = [
        trigger("edit", "issues"),
        trigger("edit", "issues", "--prompt", "{{state.x}}"),
        trigger("edit", "other", "--key", "x"),
        trigger("rotate", "issues", "--keep", "soon"),
    ]

    assert [each.exit_code != 0 for each in results] == [True] * 4
    assert "nothing to change" in results[0].stderr
    assert "is not a duration" in results[3].stderr
