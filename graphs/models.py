"""The model names that the engine can call: `provider:model` with a provider litellm knows."""

from __future__ import annotations

from collections.abc import Collection, Mapping

# Valid prefixes of a model name: the provider ids of litellm 1.106. Listed here because importing
# litellm takes seconds, and reporting a wrong provider should take milliseconds.
_PROVIDER_IDS = """
    a2a a2a_agent ai21 ai21_chat aiml aiohttp_openai amazon_nova anthropic anthropic_text apertis
    assemblyai auto_router aws_polly aws_textract azure azure_ai azure_speech azure_text baseten
    bedrock bedrock_mantle black_forest_labs bytez cerebras charity_engine chatgpt chutes clarifai
    cloudflare codestral cognition cohere cohere_chat cometapi compactifai cortecs cursor custom
    custom_openai darkbloom dashscope databricks datarobot deepgram deepinfra deepseek
    docker_model_runner dotprompt edenai elevenlabs empower fal_ai featherless_ai fireworks_ai
    friendliai galadriel gdc gemini gigachat github github_copilot gradient_ai groq helicone heroku
    hosted_vllm huggingface humanloop hyperbolic inception infinity jina_ai lambda_ai langflow
    langfuse langgraph lemonade libertai litellm_agent litellm_proxy llamafile lm_studio manus
    maritalk meta meta_llama milvus minimax mistral modelscope mongodb moonshot morph nadir nano-gpt
    nebius neosantara nlp_cloud novita nscale nvidia_nim nvidia_riva oci ollama ollama_chat
    oobabooga openai openai_like openrouter ovhcloud parasail perplexity petals pg_vector pinstripes
    poe predibase prism publicai qwen_ai_platform qwencloud ragflow recraft reducto reka replicate
    runwayml s3_vectors sagemaker sagemaker_chat sagemaker_nova sail sambanova sap scaleway scx-ai
    snowflake soniox stability strands_decider synthetic tencent tensormesh
    text-completion-codestral text-completion-inception text-completion-openai together_ai topaz
    transcribe triton typesafe v0 valkey vercel_ai_gateway vertex_ai vertex_ai_beta vllm volcengine
    voyage wandb watsonx watsonx_text xai xiaomi_mimo xinference zai
"""
PROVIDERS: frozenset[str] = frozenset(_PROVIDER_IDS.split())

# Names for providers that other tools, for which agents were written, use.
OTHER_NAMES: Mapping[str, str] = {
    "azure-openai": "azure",
    "claude": "anthropic",
    "fireworks": "fireworks_ai",
    "jina": "jina_ai",
    "openai-compatible": "custom_openai",
    "qianwen": "dashscope",
    "together": "together_ai",
    "vertexai": "vertex_ai",
    "voyageai": "voyage",
    "zhipuai": "zai",
}

# The environment variables that may hold a provider's key; one of them is enough. Providers with
# other ways of signing in are not listed and left to litellm.
PROVIDER_KEYS: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "cerebras": ("CEREBRAS_API_KEY",),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "fireworks_ai": ("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY", "FIREWORKS_AI_TOKEN"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY", "OR_API_KEY"),
    "perplexity": ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
    "together_ai": ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"),
    "xai": ("XAI_API_KEY",),
}


def standard_provider(provider: str) -> str:
    """Return the engine's name for a provider."""
    return OTHER_NAMES.get(provider, provider)


def standard_model(model: str) -> str:
    """Return the model with the engine's name for its provider; only the first colon separates."""
    provider, colon, name = model.partition(":")
    return f"{standard_provider(provider)}{colon}{name}"


def missing_keys(model: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that may hold the model's key, if none of them is set."""
    names = PROVIDER_KEYS.get(standard_provider(model.partition(":")[0]), ())
    return () if any(environment.get(name) for name in names) else names


def is_known_model(model: str, more_providers: Collection[str] = ()) -> bool:
    """Return whether the text is `provider:model` with a known provider, or one of those given."""
    provider, _, name = model.partition(":")
    known = standard_provider(provider) in PROVIDERS or provider in more_providers
    return known and bool(name.strip())
