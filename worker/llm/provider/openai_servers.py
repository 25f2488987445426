"""The providers that are called by OpenAI's protocol, and their addresses.

A provider is listed if litellm would send it exactly what we do; tests compare the two. Providers
that need requests or send replies in another form are left to litellm.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final
from urllib.parse import urlsplit

from sleipnir.graphs.models import PROVIDER_KEYS
from sleipnir.records import dataclass
from sleipnir.worker.llm.client import OPENAI_COMPATIBLE, Endpoint


@dataclass(frozen=True, slots=True)
class Server:
    """How a provider is called."""

    base: str | None  # None: given by `base_variable` only
    base_variable: str
    key_variable: str = ""  # if the provider is not in PROVIDER_KEYS
    # Added to requests so that the server reports the cost of a call.
    asks_cost: Mapping[str, Any] = field(default_factory=dict)
    # Settings that the provider knows under other names.
    translated: frozenset[str] = frozenset()
    streams_schemas: bool = True  # whether replies that conform to a schema can be streamed


_OPENAI: Final = Server("https://api.openai.com/v1", "OPENAI_BASE_URL")

SERVERS: Final[Mapping[str, Server]] = {
    OPENAI_COMPATIBLE: _OPENAI,
    "deepseek": Server(
        "https://api.deepseek.com/beta",
        "DEEPSEEK_API_BASE",
        translated=frozenset({"reasoning_effort"}),
    ),
    "groq": Server("https://api.groq.com/openai/v1", "GROQ_API_BASE", streams_schemas=False),
    "hosted_vllm": Server(None, "HOSTED_VLLM_API_BASE", "HOSTED_VLLM_API_KEY"),
    "litellm_proxy": Server(None, "LITELLM_PROXY_API_BASE", "LITELLM_PROXY_API_KEY"),
    "lm_studio": Server(None, "LM_STUDIO_API_BASE", "LM_STUDIO_API_KEY"),
    "openai": _OPENAI,
    "openrouter": Server(
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_BASE",
        asks_cost={"usage": {"include": True}},
    ),
    "sambanova": Server("https://api.sambanova.ai/v1", "SAMBANOVA_API_BASE", "SAMBANOVA_API_KEY"),
    "together_ai": Server("https://api.together.ai/v1", "TOGETHER_AI_API_BASE"),
}

# Which account OpenAI itself is called as, if there are several.
_ACCOUNT_HEADERS: Final[Mapping[str, str]] = {
    "OPENAI_ORGANIZATION": "OpenAI-Organization",
    "OPENAI_PROJECT_ID": "OpenAI-Project",
}


@dataclass(frozen=True, slots=True)
class ModelAddress:
    """Where a model is called, and its name there."""

    provider: str
    model: str
    base: str
    headers: Mapping[str, str] = field(repr=False)
    asks_cost: Mapping[str, Any]
    streams_schemas: bool

    @property
    def url(self) -> str:
        """The URL of chat completions."""
        return self.url_of("chat/completions")

    def url_of(self, service: str) -> str:
        """Return a service's URL; a query in the base stays behind the path."""
        path, mark, query = self.base.partition("?")
        return f"{path.rstrip('/')}/{service}{mark}{query}"

    @property
    def is_openai(self) -> bool:
        """Whether OpenAI itself answers, and not a compatible server."""
        host = urlsplit(self.base).hostname or ""
        return host == "openai.com" or host.endswith(".openai.com")


def address_of(endpoint: Endpoint) -> ModelAddress | None:
    """Return where an endpoint's model is called directly; None if it is not."""
    provider, _, model = endpoint.model.partition("/")
    server = SERVERS.get(provider)
    if server is None:
        return None
    base = endpoint.api_base or _base(server)
    if not base:
        return None
    key = endpoint.api_key or _first(key_variables(provider))
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    if server is _OPENAI:
        headers |= {
            header: value
            for variable, header in _ACCOUNT_HEADERS.items()
            if (value := os.environ.get(variable))
        }
    return ModelAddress(provider, model, base, headers, server.asks_cost, server.streams_schemas)


def server_of(endpoint: Endpoint) -> tuple[str, int] | None:
    """Return host and port where a model is called; None if only litellm knows."""
    address = address_of(endpoint)
    url = urlsplit(endpoint.api_base or "" if address is None else address.base)
    if not url.hostname:
        return None
    return url.hostname, url.port or (443 if url.scheme == "https" else 80)


def is_elsewhere(provider: str) -> bool:
    """Return whether the environment has a provider's models called at another address."""
    server = SERVERS.get(provider)
    return server is not None and _base(server) != server.base


def key_variables(provider: str) -> Sequence[str]:
    """Return the environment variables that may hold a provider's key."""
    own = SERVERS[provider].key_variable
    return PROVIDER_KEYS.get(provider) or ((own,) if own else ())


def _base(server: Server) -> str | None:
    older = os.environ.get("OPENAI_API_BASE") if server is _OPENAI else None
    return os.environ.get(server.base_variable) or older or server.base


def _first(variables: Sequence[str]) -> str | None:
    return next((value for name in variables if (value := os.environ.get(name))), None)
