"""Model names."""

import pytest

from graphs.models import is_known_model


@pytest.mark.parametrize("model", ["openai:gpt-5", "ollama:llama3:8b", "azure:my/deployment"])
def test_a_model_is_a_known_provider_and_any_name(model: str) -> None:
    assert is_known_model(model)


@pytest.mark.parametrize("model", ["", "gpt-5", "openai:", "openai: ", ":gpt-5", "OpenAI:gpt-5"])
def test_anything_else_is_unknown(model: str) -> None:
    assert not is_known_model(model)
