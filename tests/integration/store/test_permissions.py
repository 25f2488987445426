"""A user of Redis that may do just what the documented rule says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import NoPermissionError

from sleipnir.scheduler.doctor.consistency import ConsistencyCheck
from sleipnir.scheduler.doctor.permissions import permission_check, rule
from sleipnir.scheduler.store.connection import connect
from sleipnir.scheduler.store.rate_limiter import RateLimiter
from tests.support.command_line import Sleipnir
from tests.support.model_server import ModelServer, says
from tests.support.pages import ROOT
from tests.support.redis_server import RedisServer
from tests.support.sentinels import free_ports
from tests.support.wait import wait_until
from tests.support.workers import Workers

CHILD = """
start: s
nodes:
  s: {type: script, script: s.sh, next: z}
  z: {type: end, output: "{{initial_prompt}}"}
"""
GRAPH = """
start: s
nodes:
  s: {type: script, script: s.sh, next: l}
  l: {type: llm, model: openai:small, prompt: "?", next: m, state_updates: {said: "{{output}}"}}
  m: {type: map, over: "{{items}}", as: item, branch: b, collect_into: mapped, next: c}
  b: {type: script, script: s.sh, state_updates: {output: "{{item}}"}}
  c: {type: agent, agent: child, prompt: "a child", next: q, state_updates: {child: "{{output}}"}}
  q: {type: input, question: "well?", next: z, state_updates: {answer: "{{input}}"}}
  z: {type: end, output: "{{said}}, {{child}}, {{answer}}"}
"""


@pytest.fixture
def restricted(tmp_path: Path) -> Iterator[tuple[Any, str]]:
    """A client that may do everything, and the URL of a user that may do what the rule says."""
    (port,) = free_ports(1)
    with RedisServer(tmp_path / "redis") as server, connect(server.url) as admin:
        admin.execute_command("ACL", "SETUSER", "sleipnir", "on", ">secret", *rule().split())
        admin.config_set("bind", "127.0.0.1")
        admin.config_set("port", port)
        yield admin, f"redis://sleipnir:secret@127.0.0.1:{port}/0"


def refused(admin: Any) -> list[tuple[str, str]]:
    """What the server refused for want of permission: commands, keys or channels."""
    return [(entry["reason"], entry["object"]) for entry in admin.execute_command("ACL LOG")]


@pytest.mark.timeout(300)
def test_all_kinds_of_nodes_run_as_a_restricted_user(
    restricted: tuple[Any, str], tmp_path: Path, own_directories: None, server: ModelServer
) -> None:
    admin, url = restricted
    server.script.add(says("hello"))
    sleipnir = Sleipnir(tmp_path / "cli", SLEIPNIR_REDIS_URL=url)
    sleipnir.write("ends", "start: z\nnodes:\n  z: {type: end}\n")
    with connect(url) as client, Workers(url, client, tmp_path) as workers:
        worker = workers.start("--scheduler")
        workers.write("child", CHILD, {"s.sh": "echo '{}'"})
        run_id = workers.submit(GRAPH, {"s.sh": "echo '{}'"}, state={"items": [1, 2]})
        wait_until(lambda: workers.queries.questions(run_id), "the run asks", 150)
        workers.client.answer(run_id, "yes")
        run = workers.client.wait(run_id)

        batch = sleipnir("batch", "ends", "-", "--format", "txt", stdin="one\ntwo\n")
        violations = list(ConsistencyCheck(client).violations())
        RateLimiter(client).set("openai", "requests_per_minute", "9")

        assert (run.failure, run.output) == (None, "hello, a child, yes")
        assert batch.returncode == 0, batch.stderr
        assert violations == []
        worker.terminate()
        assert worker.exit_code(60) == 0
    # A command that tells the server which library is connected: it is refused without harm.
    # Before Redis 7 the log names no subcommand.
    assert {what for _, what in refused(admin)} <= {"client|setinfo", "client"}


def test_a_restricted_user_may_nothing_else(restricted: tuple[Any, str]) -> None:
    _, url = restricted
    others = ("GET other", "SET other x", "PUBLISH other x", "KEYS *", "ACL LIST")
    the_server = ("CONFIG SET maxmemory 1", "FLUSHALL", "REPLICAOF NO ONE", "SHUTDOWN NOSAVE")

    with connect(url) as client:
        for command in (*others, *the_server):
            with pytest.raises(NoPermissionError):
                client.execute_command(*command.split())


def test_the_documented_rule_is_this_one() -> None:
    assert rule() in (ROOT / "docs/operating.md").read_text()


def test_doctor_prints_the_rule(restricted: tuple[Any, str], tmp_path: Path) -> None:
    _, url = restricted

    found = Sleipnir(tmp_path / "cli", SLEIPNIR_REDIS_URL=url)("doctor", "--json")

    checks = {check["name"]: check for check in json.loads(found.stdout)["checks"]}
    assert checks["Redis user"]["state"] == "ok"
    assert rule() in checks["Redis user"]["remedy"]
    assert checks["Redis"]["state"] == "ok"


def test_a_user_that_lacks_something_is_told_what(restricted: tuple[Any, str]) -> None:
    admin, url = restricted
    admin.execute_command("ACL", "SETUSER", "sleipnir", "-info", "resetchannels")

    with connect(url) as client:
        check = permission_check(client)

    assert check.state == "error"
    assert "INFO server" in check.text
    assert "PUBLISH sleipnir:batch:none" in check.text
    assert rule() in (check.remedy or "")


def test_a_command_of_such_a_user_says_where_the_rule_is(
    restricted: tuple[Any, str], tmp_path: Path
) -> None:
    admin, url = restricted
    admin.execute_command("ACL", "SETUSER", "sleipnir", "-info")

    refused = Sleipnir(tmp_path / "cli", SLEIPNIR_REDIS_URL=url)("ps")

    assert refused.returncode == 7
    assert "`sleipnir doctor` prints the rule" in refused.stderr
