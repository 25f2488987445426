"""`sleipnir doctor`: what it finds, what it advises, and how it exits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.support.command_line import Sleipnir
from tests.support.redis_server import RedisServer
from tests.support.sentinels import cluster_options
from tests.support.workers import Workers

KEYLESS = {"OPENAI_API_KEY": "", "ANTHROPIC_API_KEY": ""}


@pytest.fixture
def sleipnir(tmp_path: Path) -> Sleipnir:
    return Sleipnir(tmp_path)


def checks(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in report["checks"]}


def test_an_embedded_engine_that_is_not_running_is_fine(sleipnir: Sleipnir) -> None:
    done = sleipnir("doctor", **KEYLESS)

    assert done.returncode == 0
    assert "ok    Redis: embedded " in done.stdout
    assert "ok    workers: started by commands" in done.stdout
    assert "ok    bash: GNU bash" in done.stdout


def test_every_setting_is_listed_with_its_origin(sleipnir: Sleipnir) -> None:
    sleipnir.environment["SLEIPNIR_LEASE_S"] = "20"

    report = sleipnir.json("doctor")

    settings = {setting["name"]: setting for setting in report["settings"]}
    assert settings["lease_s"] == {"name": "lease_s", "value": 20.0, "origin": "environment"}
    assert settings["max_deliveries"]["origin"] == "default"


def test_settings_at_their_defaults_are_listed_on_request(sleipnir: Sleipnir) -> None:
    sleipnir.environment["SLEIPNIR_LEASE_S"] = "20"

    brief, whole = (sleipnir("doctor", *flags, **KEYLESS).stdout for flags in ((), ("-v",)))

    assert "lease_s  20.0   environment" in brief
    assert "max_deliveries" not in brief
    assert "max_deliveries" in whole


@pytest.mark.parametrize(
    "command",
    [
        ("run", "two"),
        ("submit", "two"),
        ("batch", "two", "lines.txt", "-o", "out.jsonl"),
        ("worker",),
        ("scheduler",),
        ("monitor", "--port", "0"),
        ("doctor",),
    ],
    ids=lambda command: command[0],
)
def test_a_redis_in_cluster_mode_is_refused_before_anything_is_stored(
    sleipnir: Sleipnir, tmp_path: Path, command: tuple[str, ...]
) -> None:
    sleipnir.write("two", "start: z\nnodes:\n  z: {type: end}\n")
    (sleipnir.project / "lines.txt").write_text("one\n")
    with RedisServer(tmp_path / "redis", *cluster_options()) as server:
        done = sleipnir(*command, "--redis", server.url, **KEYLESS)
        with redis.Redis.from_url(server.url) as client:
            assert client.dbsize() == 0

    assert done.returncode == 7
    assert "cluster mode" in done.stdout + done.stderr


def test_a_setting_with_parts_has_a_line_for_each(sleipnir: Sleipnir) -> None:
    done = sleipnir("doctor", SLEIPNIR_MODELS='{"budgets": {"day": {"usd": 7.5}}}', **KEYLESS)

    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["models.budgets.day.usd", "7.5", "environment"] in lines


def test_variables_that_programs_read_and_do_not_get_are_named(sleipnir: Sleipnir) -> None:
    graph = "start: s\nnodes:\n  s: {type: script, script: build.sh, next: z}\n  z: {type: end}\n"
    files = {
        "build.sh": "$BUILD_CMD $HOME $ALLOWED $GIVEN $LLM_ROOT_DIR",
        "tools.sh": "# @env DECLARED\n# @cmd D\ndeploy() { echo $DECLARED $DEPLOY_TO; }\n",
        ".env": "GIVEN=1\n",
    }
    sleipnir.write("builder", graph, files)
    environment = {**KEYLESS, "BUILD_CMD": "make", "SLEIPNIR_TOOL_ENV": "ALLOWED"}

    done = sleipnir("doctor", **environment)

    line, advice = done.stdout.partition("environment of builder: ")[2].splitlines()[:2]
    told = "BUILD_CMD (set here, read by build.sh), DEPLOY_TO (read by tools.sh)"
    assert line == f"not passed on to its programs: {told}"
    assert "`tool_env: [BUILD_CMD]` in config.yaml" in advice


def test_keys_of_models_are_named_never_shown(sleipnir: Sleipnir) -> None:
    done = sleipnir("doctor", OPENAI_API_KEY="sk-not-to-be-seen")

    assert "ok    model keys: found for openai" in done.stdout
    assert "sk-not" not in done.stdout + done.stderr


def test_an_unreachable_redis_is_a_failure_with_its_password_masked(sleipnir: Sleipnir) -> None:
    done = sleipnir("doctor", "--redis", "redis://me:pa55word@127.0.0.1:1/0")

    assert done.returncode == 7
    assert "FAIL  Redis: cannot reach Redis at redis://me:***@127.0.0.1:1/0" in done.stdout
    assert "pa55word" not in done.stdout + done.stderr


def test_a_redis_without_workers_is_a_failure(
    sleipnir: Sleipnir, redis_server: RedisServer, redis_client: Any
) -> None:
    report = sleipnir.json("doctor", "--redis", redis_server.url)

    found = checks(report)
    assert report["healthy"] is False
    assert found["Redis"]["state"] == "ok"
    assert (found["workers"]["state"], found["scheduler"]["state"]) == ("error", "error")
    assert "sleipnir worker" in found["workers"]["remedy"]


def test_a_broker_that_is_away_is_named(sleipnir: Sleipnir, redis_server: RedisServer) -> None:
    broker = {"SLEIPNIR_BROKER_URL": "redis://me:pa55word@127.0.0.1:1/0"}
    report = json.loads(sleipnir("doctor", "--redis", redis_server.url, "--json", **broker).stdout)

    found = checks(report)["broker"]
    assert found["state"] == "error"
    assert found["text"].startswith("cannot reach redis://me:***@127.0.0.1:1/0: ")


def test_a_worker_with_a_scheduler_makes_it_healthy(
    sleipnir: Sleipnir, redis_server: RedisServer, workers: Workers
) -> None:
    workers.start("--scheduler", concurrency=5)

    report = sleipnir.json("doctor", "--redis", redis_server.url)

    assert report["healthy"] is True
    assert checks(report)["workers"]["text"] == "1 running, 5 nodes at a time, 0 now"
