"""`trigger create` says what is wrong with the agent that it will start."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sleipnir.scheduler.cli.app import cli
from tests.support.engine import Engine
from tests.support.hooks import hook_key
from tests.support.redis_server import RedisServer

GRAPH = "start: done\nnodes: {done: {type: end, output: fine}}"


def test_an_agent_that_is_not_here_is_warned_of(
    redis_server: RedisServer, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLEIPNIR_HOOK_KEY_FILE", hook_key(tmp_path))
    here = engine.write("triage", GRAPH).parent

    def create(name: str, agent: str) -> Result:
        places = ["--redis", redis_server.url, "--agents-dir", str(here)]
        return CliRunner().invoke(cli, ["trigger", "create", *places, name, agent])

    known, unknown = create("known", "triage"), create("unknown", "triagge")

    assert "warning" not in known.stderr
    assert "warning: no agent named 'triagge'" in unknown.stderr
    assert "the monitor's machine has to have it" in unknown.stderr
    assert [len(each.stdout.split()) for each in (known, unknown)] == [1, 1]
    assert [each.name for each in engine.client.triggers.list()] == ["known", "unknown"]
    engine.redis.flushall()
