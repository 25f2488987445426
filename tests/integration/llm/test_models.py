"""What config.yaml says of models: aliases, chains, addresses, keys and prices."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sleipnir.scheduler.runs.model import Run
from sleipnir.worker.llm.client import Endpoint, count_tokens
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, fails, says

GRAPH = """
start: ask
nodes:
  ask: {{type: llm, model: "{model}", prompt: hello, next: done,
         state_updates: {{said: "{{{{output}}}}"}}}}
  done: {{type: end, output: "{{{{said}}}}"}}
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A server that nothing in the environment leads to, and no key for any."""
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_TOKEN"))]:
        monkeypatch.delenv(name)
    with ModelServer() as server:
        yield server


def ask(engine: Engine, model: str, **models: Any) -> Run:
    """A run that asks a model once, where config.yaml says this of models."""
    engine.configure(models=models)
    return engine.finish(GRAPH.format(model=model))


def at(server: ModelServer, **more: Any) -> dict[str, Any]:
    return {"home": {"api_base": server.base_url, **more}}


def test_an_alias_stands_for_a_model(engine: Engine, server: ModelServer) -> None:
    server.script.add(says("hi"))

    run = ask(engine, "fast", aliases={"fast": "home:llama3:8b"}, providers=at(server))

    assert run.output == "hi"
    assert server.requests[0].body["model"] == "llama3:8b"


def test_the_next_model_of_a_chain_replies_where_one_fails(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(fails(400, "no such model"), says("hi"))
    chain = ["home:first", "anthropic:without-a-key", "home:second", "home:third"]

    run = ask(engine, "any", aliases={"any": chain}, providers=at(server))

    assert run.output == "hi"
    assert [request.body["model"] for request in server.requests] == ["first", "second"]


def test_a_chain_without_a_reply_fails_with_the_words_of_all(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(fails(500, "oops"), fails(429, "slow down"))
    chain = ["home:first", "home:second"]

    run = ask(engine, "any", aliases={"any": chain}, providers=at(server))

    assert run.output == (
        "LLM node failed: home:first: HTTP 500: oops; home:second: HTTP 429: slow down"
    )


def test_a_limit_of_one_model_makes_the_next_one_reply(engine: Engine, server: ModelServer) -> None:
    server.script.add(says("one"), says("two"))
    models = {
        "aliases": {"any": ["home:first", "home:second"]},
        "providers": at(server),
        "limits": {"home:first": {"requests_per_minute": 1}},
    }

    outputs = [ask(engine, "any", **models).output for _ in range(2)]

    assert outputs == ["one", "two"]
    assert [request.body["model"] for request in server.requests] == ["first", "second"]


def test_a_kept_reply_is_that_of_the_models_an_alias_stands_for_now(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(says("old"), says("new"))
    graph = GRAPH.format(model="any").replace("next: done", "next: done, cache: true")
    outputs = []

    for model in ("home:old", "home:new", "home:old"):
        engine.configure(models={"aliases": {"any": model}, "providers": at(server)})
        outputs.append(engine.finish(graph).output)

    assert outputs == ["old", "new", "old"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("HOME_API_KEY", None), ("MY_KEY", "MY_KEY"), (None, "sk-in-the-settings")],
    ids=["the usual name", "a name of the user's", "the key itself"],
)
def test_a_key_is_sent_to_the_server_it_is_for(
    engine: Engine,
    server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
    name: str | None,
    value: str | None,
) -> None:
    server.script.add(says("hi"))
    if name is not None:
        monkeypatch.setenv(name, "sk-in-the-environment")

    ask(engine, "home:m", providers=at(server, **{"api_key": value} if value else {}))

    expected = "sk-in-the-settings" if name is None else "sk-in-the-environment"
    assert server.requests[0].headers["authorization"] == f"Bearer {expected}"


def test_a_key_may_be_in_the_secrets_file(
    engine: Engine, server: ModelServer, tmp_path: Path
) -> None:
    server.script.add(says("hi"))
    write_secret(tmp_path, "OPENAI_API_KEY: sk-in-the-file")

    run = ask(engine, "openai:m", providers={"openai": {"api_base": server.base_url}})

    assert run.output == "hi"
    assert server.requests[0].headers["authorization"] == "Bearer sk-in-the-file"
    assert "OPENAI_API_KEY" not in os.environ


def test_whether_a_model_can_be_called_is_known_before_it_is(
    engine: Engine, server: ModelServer, tmp_path: Path
) -> None:
    write_secret(tmp_path, "OPENAI_API_KEY: sk-in-the-file")
    aliases = {"fast": ["groq:m", "openai:m"], "mute": "groq:m"}
    engine.configure(model="openai:m", models={"aliases": aliases, "providers": at(server)})

    models = engine.services.models

    assert all(map(models.endpoints, ("fast", "home:m", "openai:m", None)))
    assert not any(map(models.endpoints, ("mute", "groq:m", "nothing")))


def test_a_secrets_file_that_others_can_read_is_not_used(
    engine: Engine, server: ModelServer, tmp_path: Path
) -> None:
    write_secret(tmp_path, "OPENAI_API_KEY: sk-in-the-file").chmod(0o644)

    run = ask(engine, "openai:m", providers={"openai": {"api_base": server.base_url}})

    assert run.output is not None
    assert "is open to other users: run `chmod 600" in run.output
    assert server.requests == []


def test_a_key_that_is_nowhere_is_asked_for_by_its_name(
    engine: Engine, server: ModelServer
) -> None:
    run = ask(engine, "home:m", providers=at(server, api_key="MY_KEY"))

    assert run.output == (
        "LLM node failed: no API key: set MY_KEY in the environment of the worker or in its "
        "secrets file"
    )


def test_a_configured_price_counts_instead_of_the_table(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(says("hi", prompt_tokens=1_000_000, completion_tokens=500_000))
    prices = {"home:m": {"prompt": 1.0, "completion": 4.0}}

    run = ask(engine, "home:m", providers=at(server), prices=prices)

    assert run.usage.cost_usd == pytest.approx(3.0)


def test_the_table_of_a_provider_is_no_price_of_somebody_elses_server(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(says("hi"))

    run = ask(engine, "home:gpt-4o", providers=at(server))

    assert run.usage.cost_usd is None


def test_a_name_that_is_nothing_here_is_explained(engine: Engine, server: ModelServer) -> None:
    engine.configure(models={"aliases": {"fast": "home:m"}, "providers": at(server)})
    run_id = engine.submit(GRAPH.format(model="fast"))
    engine.configure()

    engine.drive()

    assert "unknown model 'fast': it is neither provider:model nor an alias" in (
        engine.run(run_id).output or ""
    )


def write_secret(tmp_path: Path, line: str) -> Path:
    file = tmp_path / "config" / "secrets.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(line)
    file.chmod(0o600)
    return file


@pytest.mark.parametrize(
    ("model", "counted"),
    [
        ("anthropic/claude-sonnet-4-5", True),
        ("anthropic/nobody-knows-it", False),
        ("openai/gpt-4o", False),  # asked without litellm
    ],
)
def test_prompts_are_counted_by_the_library_where_it_asks_a_model_it_knows(
    model: str, counted: bool
) -> None:
    words = [{"role": "user", "content": "a " * 1_000}]

    tokens = count_tokens(words, Endpoint(model))

    assert (tokens is not None and 1_000 <= tokens < 1_100) == counted
    assert (tokens is None) == (not counted)
