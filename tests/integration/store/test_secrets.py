"""A planted value is looked for everywhere people, or Flower, can look."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.support.engine import Engine
from tests.support.queue import waiting

CANARY = "canary-7c1f44e0b2"

LEAKY = """
    start: leak
    variables: [{name: token, description: a secret, secret: true}]
    nodes:
      leak: {type: script, script: leak.sh, next: ask}
      ask: {type: input, question: "Really {{error}}?", next: fail}
      fail: {type: script, script: leak.sh}
      done: {type: end}
"""
SCRIPT = {"leak.sh": 'echo "the token is $LLM_AGENT_VAR_TOKEN" >&2; exit 1\n'}


def everything_kept(engine: Engine) -> dict[str, str]:
    """All of Redis as text, by key."""
    kept: dict[str, str] = {}
    for key in cast(list[str], engine.redis.keys("*")):
        if key.startswith("sleipnir:bundle:"):
            continue
        reads: dict[str, Any] = {
            "hash": engine.redis.hgetall,
            "set": engine.redis.smembers,
            "list": lambda name: engine.redis.lrange(name, 0, -1),
            "stream": engine.redis.xrange,
            "zset": lambda name: engine.redis.zrange(name, 0, -1),
            "string": engine.redis.get,
        }
        kept[key] = str(reads[cast(str, engine.redis.type(key))](key))
    return kept


def test_a_secret_variable_shows_in_nothing_that_people_read(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    run = engine.finish(LEAKY, SCRIPT, variables={"token": CANARY})
    (question,) = engine.queries.questions(run.run_id)
    engine.client.answer(run.run_id, "yes")
    engine.drive()

    kept = everything_kept(engine)
    failed = engine.run(run.run_id)

    assert failed.failure is not None
    assert failed.failure.code == "R013"
    assert "the token is ***" in failed.failure.message
    assert "the token is ***" in question.text
    logs = engine.queries.logs(run.run_id)
    assert all(entry["text"].endswith("the token is ***") for entry in logs)
    assert [entry["stream"] for entry in logs] == 2 * ["stderr", "failure"]
    # The run's record has to hold it: the next visit's script gets it from there.
    leaks = [key for key, text in kept.items() if CANARY in text]
    assert leaks == [key for key in kept if key.endswith(f":run:{run.run_id}")]
    assert CANARY not in str(engine.redis.hget(leaks[0], "error"))
    assert CANARY not in caplog.text


def test_a_secret_of_the_machine_never_gets_into_redis(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SHOP_PIN", CANARY)
    graph = LEAKY.replace("secret: true", 'secret: true, default: "{{SHOP_PIN}}"')
    tells = """
        echo "it is $LLM_AGENT_VAR_TOKEN" >&2
        echo "{\\"told\\": [\\"it is $LLM_AGENT_VAR_TOKEN\\"], \\"error\\": 0}"
        """

    run = engine.finish(graph, {"leak.sh": tells})

    kept = everything_kept(engine)
    assert run.status == "waiting"
    assert engine.state(run.run_id)["told"] == ["it is ***"]
    assert [entry["text"] for entry in engine.queries.logs(run.run_id)] == ["it is ***"]
    assert [key for key, text in kept.items() if CANARY in text] == []
    assert CANARY not in caplog.text


def test_keys_of_env_files_show_in_nothing_that_people_read(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    leaks = {"leak.sh": 'echo "the token is $SHOP_TOKEN" >&2; exit 1', ".env": "SHOP_TOKEN=CANARY"}
    files = {name: text.replace("CANARY", CANARY) for name, text in leaks.items()}

    run = engine.finish(LEAKY.replace("secret: true", "default: x"), files)

    kept = everything_kept(engine)
    assert engine.state(run.run_id)["error"].endswith("the token is ***")
    assert [key for key, text in kept.items() if CANARY in text] == []
    assert CANARY not in caplog.text


def test_messages_carry_ids_only(engine: Engine) -> None:
    engine.submit(LEAKY, SCRIPT, variables={"token": CANARY}, prompt=CANARY)

    (message,) = waiting(engine.redis)

    assert CANARY not in message


def test_a_worker_s_keys_reach_no_script(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    monkeypatch.setenv("SLEIPNIR_REDIS_URL", f"redis://:{CANARY}@127.0.0.1/0")
    run = engine.finish(
        """
        start: look
        nodes:
          look: {type: script, script: look.py, next: done}
          done: {type: end, output: "{{seen}}"}
        """,
        {"look.py": "import json, os; print(json.dumps({'seen': dict(os.environ)}))\n"},
    )

    assert run.output is not None
    assert "PATH" in run.output
    assert CANARY not in run.output
