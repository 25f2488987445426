"""What limits.md has people type in, with the budgets that it configures."""

from __future__ import annotations

import json
import shlex

import pytest
import yaml
from click.testing import CliRunner, Result

from sleipnir.scheduler.cli.app import cli
from tests.support.engine import Engine
from tests.support.pages import blocks
from tests.support.redis_server import RedisServer


def test_the_manual_shows_sets_and_lifts_limits(
    engine: Engine, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (budgets,) = (
        yaml.safe_load(text)["models"] for text in blocks("limits.md", "yaml") if "budgets" in text
    )
    monkeypatch.setenv("SLEIPNIR_MODELS", json.dumps(budgets))
    monkeypatch.setenv("SLEIPNIR_REDIS_URL", redis_server.url)
    # No worker is there to learn of a change.
    monkeypatch.setattr("sleipnir.scheduler.client.limits.commands._KNOWN_AFTER_S", 0)
    (commands,) = (text for text in blocks("limits.md", "sh") if "limits --set" in text)
    calls = [shlex.split(line, comments=True) for line in commands.splitlines()]

    def call(*words: str) -> Result:
        return CliRunner().invoke(cli, words, standalone_mode=False)

    done = [call(*words) for _, *words in calls]

    assert [(one.exception, one.exit_code) for one in done] == [(None, 0)] * len(calls)
    left = json.loads(call("limits", "--json").stdout)
    assert (left["limits"], left["pauses"]) == ([], [])
    assert [budget["usd"] for budget in left["budgets"] if budget["name"] == "day"] == [100]
