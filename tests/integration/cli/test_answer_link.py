"""`answer-link` prints a link to one question."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.store.audit.log import AuditLog
from tests.support.engine import Engine
from tests.support.redis_server import RedisServer

GRAPH = "start: ask\nnodes: {ask: {type: input, question: Why?, next: e}, e: {type: end}}"


def call(server: RedisServer, *arguments: str) -> Result:
    given = ["answer-link", "--redis", server.url, *arguments]
    return CliRunner().invoke(cli, given, standalone_mode=False)


def test_it_prints_the_link_or_all_that_is_known_of_it(
    redis_server: RedisServer, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = engine.finish(GRAPH)
    monkeypatch.setenv("SLEIPNIR_MONITOR_PUBLIC_URL", "https://runs.example")
    monkeypatch.setenv("SLEIPNIR_USER", "me@here")

    printed = call(redis_server, run.run_id[:8], "--for", "ann").stdout
    document: dict[str, Any] = json.loads(
        call(redis_server, run.run_id, "--for", "bob", "--node", "ask", "--json").stdout
    )

    assert printed.startswith("https://runs.example/a/")
    assert document["answer_url"].startswith("https://runs.example/a/")
    assert document["question_id"] == f"{run.run_id}/1/ask"
    assert document["recipient"] == "bob"
    acts = [entry.act for entry in AuditLog(engine.store.client).newest(10).entries]
    assert [(act.act, act.who, act.via, act.detail) for act in acts] == [
        ("answer-link", "me@here", "cli", "for bob"),
        ("answer-link", "me@here", "cli", "for ann"),
    ]


def test_it_lists_links_and_revokes_them(
    redis_server: RedisServer, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = engine.finish(GRAPH)
    monkeypatch.setenv("SLEIPNIR_MONITOR_PUBLIC_URL", "https://runs.example")

    none = call(redis_server, run.run_id)
    call(redis_server, run.run_id, "--for", "ann")
    listed = call(redis_server, run.run_id)
    revoked = call(redis_server, run.run_id, "--for", "ann", "--revoke")
    again = call(redis_server, run.run_id, "--for", "ann", "--revoke")
    of_nobody = call(redis_server, run.run_id, "--revoke")

    assert "no links; make one with" in none.stderr
    assert listed.stdout.splitlines()[1].split()[::2] == ["ann", f"{run.run_id}/1/ask"]
    assert "opens nothing any more" in revoked.stderr
    assert "has no link to question" in again.stderr
    assert "--revoke needs --for" in str(of_nobody.exception)
    assert call(redis_server, run.run_id, "--json").stdout == ""
    acts = [entry.act for entry in AuditLog(engine.store.client).newest(10).entries]
    assert [(act.act, act.detail) for act in acts] == [
        ("answer-link revoke", "for ann"),
        ("answer-link", "for ann"),
    ]


def test_it_says_what_is_missing(
    redis_server: RedisServer, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = engine.finish(GRAPH)
    monkeypatch.delenv("SLEIPNIR_MONITOR_PUBLIC_URL", raising=False)

    refused = call(redis_server, run.run_id, "--for", "ann")

    assert "monitor_public_url is not set" in refused.stderr
    assert refused.stdout == ""
