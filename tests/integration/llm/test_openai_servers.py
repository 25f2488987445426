"""Models that are asked directly are asked, and priced, just as litellm would."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress
from typing import Any

import pytest

from sleipnir.scheduler.runs.model import Usage
from sleipnir.worker.llm.client import (
    OPENAI_COMPATIBLE,
    Endpoint,
    ModelCallFailed,
    ModelRequest,
    ReplySchema,
    complete,
)
from sleipnir.worker.llm.provider import gateway, model_catalog
from sleipnir.worker.llm.provider.openai_servers import SERVERS, address_of
from tests.support.model_server import ModelServer, says

LOOK = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Looks.",
        "parameters": {
            "type": "object",
            "properties": {"at": {"type": "string", "pattern": "^[a-z]+$"}},
            "required": ["at"],
        },
    },
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
# A conversation that has used a tool, and the settings that a node may have.
REQUEST = ModelRequest(
    "any:m",
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is there?"},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": '{"there": "half: ä"}'},
        {"role": "assistant", "content": "A half."},
        {"role": "user", "content": "And now?"},
    ],
    [LOOK],
    temperature=0.5,
    top_p=0.9,
    max_tokens=99,
    seed=7,
    stop=["END", "\n\n"],
    params={"top_k": 5, "user": "a", "logit_bias": {"50": -100}},
)
SCHEMA = ReplySchema(
    {
        "type": "json_schema",
        "json_schema": {
            "name": "sort",
            "schema": {
                "type": "object",
                "properties": {"label": {"enum": ["a", "b"]}},
                "required": ["label"],
                "additionalProperties": False,
            },
            "strict": True,
        },
    },
    " As JSON.",
)
SORT = ModelRequest(
    "openai:m", [{"role": "user", "content": "Sort. As JSON."}], schema=SCHEMA, temperature=0.5
)
# Of the others litellm tells no address, but uses one.
ADDRESSED = SERVERS.keys() - {"openai", OPENAI_COMPATIBLE, "openrouter"}


class Silent:
    def on_text(self, text: str) -> None:
        """A piece of a reply."""

    def end(self) -> None:
        """Its end."""


@pytest.fixture(scope="module", autouse=True)
def litellm() -> Any:
    """What the others are compared with, as we set it up: its import takes seconds."""
    importlib.import_module("sleipnir.worker.llm.provider.litellm_client")
    return sys.modules["litellm"]


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("OPENAI_") or name.endswith(("_API_BASE", "_API_KEY")):
            monkeypatch.delenv(name)


def sent(
    server: ModelServer, model: str, request: ModelRequest = REQUEST, *, streamed: bool
) -> Any:
    """The request that reaches the server, without what is about the connection."""
    server.script.add(says("hi"))
    endpoint = Endpoint(model, server.base_url, "sk-0123456789ab")
    # litellm misses in the reply what only some servers say.
    with suppress(ModelCallFailed):
        complete(request, 60, endpoint, Silent() if streamed else None)
    received = server.requests[-1]
    return received.path, received.headers["authorization"], received.body


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("provider", SERVERS)
def test_a_provider_gets_the_request_that_litellm_sends(
    monkeypatch: pytest.MonkeyPatch, provider: str, streamed: bool
) -> None:
    with ModelServer() as server:
        directly = sent(server, f"{provider}/m", streamed=streamed)
        monkeypatch.setattr(gateway, "is_asked_directly", lambda *_: False)
        by_litellm = sent(server, f"{provider}/m", streamed=streamed)

    assert directly == by_litellm


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "model",
    [
        "openai/gpt-4o-mini",
        "deepseek/deepseek-chat",
        "groq/openai/gpt-oss-20b",
        "sambanova/Meta-Llama-3.3-70B-Instruct",
        "together_ai/openai/gpt-oss-120b",
    ],
)
def test_a_provider_gets_schemas_as_litellm_sends_them(
    monkeypatch: pytest.MonkeyPatch, model: str, streamed: bool
) -> None:
    with ModelServer() as server:
        directly = sent(server, model, SORT, streamed=streamed)
        monkeypatch.setattr(gateway, "is_asked_directly", lambda *_: False)
        by_litellm = sent(server, model, SORT, streamed=streamed)

    if not by_litellm[2].get("stream"):
        by_litellm[2].pop("stream_options", None)  # it forgets them where it does not stream
    assert directly == by_litellm
    assert directly[2]["response_format"] == SCHEMA.response_format
    assert directly[2]["messages"] == [{"role": "user", "content": "Sort."}]


@pytest.mark.parametrize("provider", sorted(ADDRESSED))
def test_a_provider_is_where_litellm_has_it(litellm: Any, provider: str) -> None:
    _, _, _, base = litellm.get_llm_provider(f"{provider}/m")

    assert base == SERVERS[provider].base


@pytest.mark.parametrize("provider", SERVERS)
def test_variables_lead_to_another_address_and_hold_the_key(
    litellm: Any, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    server = SERVERS[provider]
    monkeypatch.setenv(server.base_variable, "http://here/v2/?version=3")
    monkeypatch.setenv(server.key_variable or f"{provider.upper()}_API_KEY", "sk-in-the-air")

    address = address_of(Endpoint(f"{provider}/a/m"))

    assert address is not None
    assert (address.model, address.url) == ("a/m", "http://here/v2/chat/completions?version=3")
    if provider != OPENAI_COMPATIBLE:
        _, _, key, _ = litellm.get_llm_provider(f"{provider}/a/m")
        assert address.headers == {"Authorization": "Bearer sk-in-the-air"}
        assert key in (None, "sk-in-the-air")


def test_prices_are_those_of_litellm(litellm: Any) -> None:
    table = model_catalog._table()
    wrong = [
        (provider, model, tokens)
        for (provider, model), facts in table.items()
        # The names of some groups of models are in the table too.
        if facts.mode == "chat"
        and facts.prices
        and not facts.is_cheaper_at_times  # never asked directly
        and not model.startswith("together-ai-")
        for tokens in (1_000, 150_000, 300_000)
        if cost(litellm, provider, model, tokens) != pytest.approx(facts.cost_usd(usage(tokens)))
    ]

    assert len(table) > 300
    assert wrong == []


def usage(tokens: int) -> Usage:
    return Usage(tokens, 100, None, cached_tokens=tokens // 2)


def cost(litellm: Any, provider: str, model: str, tokens: int) -> float:
    response = litellm.ModelResponse(
        model=model,
        usage=litellm.Usage(
            prompt_tokens=tokens,
            completion_tokens=100,
            total_tokens=tokens + 100,
            prompt_tokens_details={"cached_tokens": tokens // 2},
        ),
    )
    name = model if provider == "openai" else f"{provider}/{model}"
    return float(litellm.completion_cost(response, model=name, custom_llm_provider=provider))
