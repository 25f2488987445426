"""The only module that imports litellm, and the only one that knows its ways.

Importing it takes seconds and some 180 MB, so `worker.llm.client` does it at the first call.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from time import monotonic
from typing import Any

from scheduler.run import Usage
from worker.llm.client import Message, Reply, Request
from worker.llm.failures import failure_of
from worker.llm.transport import DEADLINE, SharedTransport

# Read by litellm while it is imported: without these it fetches its price list and header
# tables from the network, and loads whatever `.env` lies near the working directory.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
os.environ.setdefault("LITELLM_MODE", "PRODUCTION")

import httpx
import litellm
import openai.resources  # noqa: F401  (most providers' first call would import it, in 0.7 s)
from litellm.llms.custom_httpx.http_handler import get_ssl_configuration

# A call without any limit ends after this long: a lost connection must not hold a thread forever.
LONGEST_CALL_S = 600.0

litellm.telemetry = False
litellm.suppress_debug_info = True  # no "give feedback" lines on stdout
litellm.disable_hf_tokenizer_download = True
# litellm builds one HTTP client per provider and setting, each limited to 100 connections;
# all of them share this transport instead.
litellm.sync_transport = SharedTransport(get_ssl_configuration())
litellm.client_session = httpx.Client(transport=litellm.sync_transport, follow_redirects=True)


def call(request: Request, timeout_s: float | None) -> Reply:
    """What `worker.llm.client.complete` does."""
    limit_s = LONGEST_CALL_S if timeout_s is None else timeout_s
    model = request.model.replace(":", "/", 1)
    settings = request.settings()
    if request.tools:
        settings["tools"] = [dict(tool) for tool in request.tools]
    deadline = DEADLINE.set(monotonic() + limit_s)
    try:
        response = litellm.completion(
            model=model,
            messages=[dict(message) for message in request.messages],
            # A constant, because litellm keeps one client per distinct value; what holds the
            # call to its limit is the deadline.
            timeout=LONGEST_CALL_S,
            max_retries=0,
            # Whether a model takes a setting is the provider's to say, not litellm's tables'.
            allowed_openai_params=list(settings),
            **settings,
        )
        return Reply(_message(response), _usage(response))
    except Exception as error:
        raise failure_of(error, limit_s, _missing_keys(model)) from error
    finally:
        DEADLINE.reset(deadline)


def known(model: str) -> dict[str, Any]:
    """What litellm's table says of a model; nothing of one that is not in it."""
    try:
        return dict(litellm.get_model_info(model.replace(":", "/", 1)))
    except Exception:  # its own classes, by provider
        return {}


def _message(response: Any) -> Message:
    if not response.choices:
        return {"role": "assistant", "content": ""}
    message: dict[str, Any] = response.choices[0].message.model_dump(exclude_none=True)
    if calls := message.get("tool_calls"):
        message["tool_calls"] = list(_by_id(calls).values())
    return message


def _by_id(calls: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of two calls with the same id the last one counts; some servers give no ids at all."""
    ids = [call.get("id") or f"call_{position}" for position, call in enumerate(calls)]
    return {call_id: {**call, "id": call_id} for call_id, call in zip(ids, calls, strict=True)}


def _usage(response: Any) -> Usage:
    counted = getattr(response, "usage", None)
    details = getattr(counted, "prompt_tokens_details", None)
    return Usage(
        prompt_tokens=getattr(counted, "prompt_tokens", 0) or 0,
        completion_tokens=getattr(counted, "completion_tokens", 0) or 0,
        cost_usd=response._hidden_params.get("response_cost"),
        cached_tokens=getattr(details, "cached_tokens", 0) or 0,
    )


def _missing_keys(litellm_model: str) -> list[str]:
    """The environment variables of API keys this model's provider needs and that are not set."""
    missing = litellm.validate_environment(litellm_model)["missing_keys"]
    return [name for name in missing if name.endswith(("_KEY", "_TOKEN"))]
