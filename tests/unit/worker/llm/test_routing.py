"""Which models are asked directly, and which by way of litellm."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.scheduler.config.models import ModelSettings
from sleipnir.worker.llm.client import (
    OPENAI_COMPATIBLE,
    Endpoint,
    ModelRequest,
    NotCalled,
    complete,
    embed,
    prepare,
)
from sleipnir.worker.llm.provider import by_litellm
from sleipnir.worker.llm.provider.pricing import Pricing
from sleipnir.worker.llm.provider.routing import is_asked_directly


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "HOSTED_VLLM_API_BASE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("_without_litellm")
def test_what_needs_litellm_says_so_where_it_was_left_out() -> None:
    endpoint = Endpoint("anthropic/claude-sonnet-4-5", api_key="not-a-real-one")

    with pytest.raises(NotCalled, match="litellm, which is not installed"):
        complete(ModelRequest("anthropic:claude-sonnet-4-5", []), endpoint=endpoint)
    with pytest.raises(NotCalled, match="litellm, which is not installed"):
        embed(["text"], None, Endpoint("cohere/embed-v4.0", api_key="not-a-real-one"))
    prepare([endpoint])
    assert Pricing(ModelSettings()).price_of("anthropic:claude-sonnet-4-5") is None


@pytest.fixture
def _without_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_litellm, "find_spec", lambda _name: None)


def asked(model: str, *parameters: Any, base: str | None = None, effort: str | None = None) -> bool:
    tools = [{"type": "function", "function": {"name": "f", "parameters": p}} for p in parameters]
    request = ModelRequest("", [], tools, reasoning_effort=effort)
    return is_asked_directly(Endpoint(model, base), request)


@pytest.mark.parametrize(
    ("model", "directly"),
    [
        ("openai/gpt-4o-mini", True),
        ("openai/home-made", True),
        ("openai/gpt-5-pro", False),  # has no chat completions
        ("deepseek/deepseek-v4-flash", False),  # its price depends on the hour
        (f"{OPENAI_COMPATIBLE}/llama3:8b", True),
        ("groq/llama-3.3-70b-versatile", True),
        ("openrouter/anthropic/claude-sonnet-4.5", True),
        ("anthropic/claude-sonnet-4-5", False),
        ("gemini/gemini-2.5-flash", False),
        ("azure/gpt-4o", False),
        ("ollama/llama3", False),
        ("hosted_vllm/m", False),  # nobody says where
    ],
)
def test_a_model_s_provider_decides(model: str, directly: bool) -> None:
    assert asked(model) is directly


def test_a_server_named_by_an_address_is_asked_directly() -> None:
    assert asked("hosted_vllm/m", base="http://here/v1")


@pytest.mark.parametrize(
    ("model", "effort", "directly"),
    [
        ("openai/gpt-5", None, True),
        ("openai/gpt-5.4", None, False),
        ("openai/gpt-6-luna", "low", False),
        ("openai/gpt-5.4", "none", True),
        ("deepseek/deepseek-chat", None, True),
        ("deepseek/deepseek-chat", "low", False),
    ],
)
def test_what_a_provider_wants_in_another_form_is_left_to_litellm(
    model: str, effort: str | None, directly: bool
) -> None:
    assert asked(model, {"type": "object"}, effort=effort) is directly


def test_other_servers_take_the_models_of_openai_as_they_are() -> None:
    assert asked("openai/gpt-5.4", {"type": "object"}, base="http://here/v1")


@pytest.mark.parametrize(
    "parameters",
    [
        {"anyOf": [{"type": "object"}]},
        {"type": "object", "properties": {"a": {"items": [{"pattern": "\\p{L}"}]}}},
    ],
)
def test_schemas_that_openai_refuses_are_left_to_litellm(parameters: Any) -> None:
    assert not asked("openai/gpt-4o", {"type": "object"}, parameters)
