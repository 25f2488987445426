"""What litellm's table says of models, under the names that they have here."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.config.model_table import (
    embedding_input_tokens,
    lacks_attachments,
    lacks_functions,
    lacks_reasoning,
    takes_schemas,
)
from sleipnir.scheduler.config.models import ModelSettings, ProviderSettings

SETTINGS = ModelSettings(
    aliases={"plain": ("openai:gpt-4o", "openai:gpt-4"), "mixed": ("openai:gpt-4o", "openai:o3")},
    providers={"openrouter": ProviderSettings(requests_per_minute=1)},
)


@pytest.mark.parametrize(
    ("model", "lacks"),
    [
        ("openai:gpt-4o", True),
        ("openai:gpt-5", False),
        ("openai:ft:gpt-4o-mini-2024-07-18:acme::abc", True),
        ("openai:not-in-the-table", False),
        ("gemini:gemini-2.5-flash-image", True),  # it says so
        ("mistral:mistral-large-latest", False),  # it says nothing
        ("plain", True),
        ("mixed", False),
    ],
)
def test_models_lack_reasoning_only_where_the_table_knows_it(model: str, lacks: bool) -> None:
    assert lacks_reasoning(SETTINGS, model) is lacks


@pytest.mark.parametrize(
    ("model", "lacks"),
    [
        ("openai:gpt-4o", False),
        ("openai:o3-deep-research", True),
        ("openai:not-in-the-table", False),
        ("ollama:llama3", False),  # it says nothing
    ],
)
def test_models_lack_functions_only_where_the_table_says_so(model: str, lacks: bool) -> None:
    assert lacks_functions(SETTINGS, model) is lacks


@pytest.mark.parametrize(
    ("model", "takes"),
    [
        ("openai:gpt-4o-mini", True),
        ("openai:gpt-4", False),
        ("openai:not-in-the-table", False),
        ("anthropic:claude-haiku-4-5", True),
        ("here:gpt-4o-mini", False),
        ("told:anything", True),
        ("groq:anything", True),
        ("mistral:mistral-large-latest", False),
    ],
)
def test_models_that_take_schemas(model: str, takes: bool) -> None:
    base = "http://127.0.0.1:8000/v1"
    settings = ModelSettings(
        providers={
            "here": ProviderSettings(api_base=base),
            "told": ProviderSettings(api_base=base, structured=True),
            "groq": ProviderSettings(structured=True),
            "mistral": ProviderSettings(structured=False),
        }
    )

    assert takes_schemas(settings, model) is takes


@pytest.mark.parametrize(
    ("model", "lacks"),
    [
        ("openai:gpt-4o", set()),
        ("openai:gpt-3.5-turbo", {"image", "pdf"}),
        ("openai:not-in-the-table", set()),
        ("here:gpt-3.5-turbo", set()),
        ("told:anything", {"pdf"}),
        ("mistral:mistral-large-latest", {"image", "pdf"}),
        ("ollama:llama3", set()),  # it says nothing
        ("some", set()),
    ],
)
def test_models_lack_images_and_pdfs_only_where_it_is_known(model: str, lacks: set[str]) -> None:
    base = "http://127.0.0.1:8000/v1"
    settings = ModelSettings(
        aliases={"some": ("openai:gpt-3.5-turbo", "openai:gpt-4o")},
        providers={
            "here": ProviderSettings(api_base=base),
            "told": ProviderSettings(api_base=base, attach=("image",)),
            "mistral": ProviderSettings(attach=()),
        },
    )

    assert lacks_attachments(settings, model) == lacks


def test_a_server_of_ones_own_may_call_any_model_so() -> None:
    elsewhere = ProviderSettings(api_base="http://127.0.0.1:8000/v1")

    assert not lacks_reasoning(ModelSettings(providers={"openai": elsewhere}), "openai:gpt-4o")


def test_what_a_call_of_an_embedding_model_takes_is_known_of_some() -> None:
    assert embedding_input_tokens(SETTINGS, "openai:text-embedding-3-small") == 8191
    assert embedding_input_tokens(SETTINGS, "openai:gpt-4o") is None  # embeds nothing
    assert embedding_input_tokens(SETTINGS, "openai:not-in-the-table") is None
    elsewhere = ModelSettings(
        providers={"openai": ProviderSettings(api_base="http://127.0.0.1:8000/v1")}
    )
    assert embedding_input_tokens(elsewhere, "openai:text-embedding-3-small") is None
