"""What models are told and reply is in spans only on request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.telemetry.test_spans import exported
from tests.support.collector import Collector
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, calls, says

_SECRET = "s3cr3t-token"
_GRAPH = """
model: openai:gpt-4o
variables: [{name: token, description: a secret, secret: true}]
start: think
nodes:
  think: {type: llm, prompt: "{{initial_prompt}}", tools: [look], next: end}
  end: {type: end}
"""
_TOOLS = '''
import os


def look(what: str) -> str:
    """Look something up."""
    return 5_000 * f"{what} {os.environ['LLM_AGENT_VAR_TOKEN']} "
'''
_CONTENT = (
    *("gen_ai.input.messages", "gen_ai.output.messages"),
    *("gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
)


@pytest.mark.parametrize("wanted", ["true", "false"])
def test_content_is_exported_on_request_masked_and_bounded(
    traced: Engine,
    collector: Collector,
    server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
    wanted: str,
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", wanted)
    server.script.add(calls(("look", {"what": _SECRET})), says(f"It is {_SECRET}."))
    request = {"variables": {"token": _SECRET}, "prompt": 3_000 * f"{_SECRET} "}
    traced.submit(_GRAPH, {"tools.py": _TOOLS}, **request)
    traced.drive()

    spans = exported(traced, collector)

    found: dict[str, Any] = {}
    for span in spans:
        assert _SECRET not in str(span)
        found |= {name: value for name, value in span.attributes.items() if name in _CONTENT}
    assert sorted(found) == (sorted(_CONTENT) if wanted == "true" else [])
    assert all(len(text.encode()) <= 16 * 1024 for text in found.values())
    if found:
        (said,) = json.loads(found["gen_ai.output.messages"])
        assert said == {
            "role": "assistant",
            "parts": [{"type": "text", "content": "It is ***."}],
            "finish_reason": "stop",
        }
        roles = [message["role"] for message in json.loads(found["gen_ai.input.messages"])]
        assert roles == ["user", "assistant", "tool"]
