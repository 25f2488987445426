"""Model names."""

import pytest

from sleipnir.graphs.models import is_known_model, missing_keys, standard_model


@pytest.mark.parametrize(
    "model", ["openai:gpt-5", "ollama:llama3:8b", "azure:my/deployment", "claude:x"]
)
def test_a_model_is_a_known_provider_and_any_name(model: str) -> None:
    assert is_known_model(model)


@pytest.mark.parametrize("model", ["", "gpt-5", "openai:", "openai: ", ":gpt-5", "OpenAI:gpt-5"])
def test_anything_else_is_unknown(model: str) -> None:
    assert not is_known_model(model)


def test_a_provider_has_one_name_here_whatever_it_is_called_elsewhere() -> None:
    assert standard_model("claude:opus:latest") == "anthropic:opus:latest"
    assert missing_keys("claude:opus", {}) == missing_keys("anthropic:opus", {}) != ()


def test_a_user_may_name_more_providers() -> None:
    assert is_known_model("home:llama3", {"home"})
    assert not is_known_model("home:llama3")
