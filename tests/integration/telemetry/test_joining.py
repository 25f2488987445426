"""Runs join the trace of the request that starts them, whichever way it comes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.driving import driven
from tests.support.engine import Engine
from tests.support.site import KEY, ServedSite

TRACE, SPAN = 32 * "a", 16 * "b"
ECHO = 'start: done\nnodes: {done: {type: end, output: "{{initial_prompt}}"}}'
_CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "echo", "arguments": {"prompt": "a"}},
}
WAYS = {
    "/api/v1/runs": {"agent": "echo", "prompt": "a"},
    "/api/v1/batches": {"agent": "echo", "lines": '{"prompt": "a"}', "format": "jsonl"},
    "/v1/chat/completions": {"model": "echo", "messages": [{"role": "user", "content": "a"}]},
    "/mcp": _CALL,
    "/hooks/door": {},
}


@pytest.fixture
def site(engine: Engine) -> Iterator[ServedSite]:
    """A site that serves an agent in all ways, and a worker."""
    engine.configure(serve={"agents": ["echo"], "mcp": True, "openai": True})
    engine.write("echo", ECHO)
    door = {"agent": "echo", "verify": "none", "allow_anonymous": True}
    engine.client.triggers.create("door", door)
    with ServedSite(engine.client) as served, driven(engine):
        yield served


@pytest.mark.parametrize("path", WAYS)
def test_a_run_joins_the_trace_of_the_request_that_starts_it(
    engine: Engine, site: ServedSite, path: str
) -> None:
    headers = {
        "Authorization": f"Bearer {KEY}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-11-25",
        "traceparent": f"00-{TRACE}-{SPAN}-01",
        "tracestate": "a=1",
    }

    answer = site.ask(path, "POST", headers=headers, body=json.dumps(WAYS[path]))

    assert answer.status in (200, 201, 202), answer.text
    (run_id,) = engine.newest_runs()
    context = engine.run(run_id).context
    assert (context.trace, context.tracestate) == (f"{TRACE} {SPAN} 1", "a=1")


def test_what_is_no_trace_is_ignored(engine: Engine, site: ServedSite) -> None:
    headers = {"Authorization": f"Bearer {KEY}", "traceparent": "00-nonsense", "tracestate": "a=1"}

    answer = site.ask("/api/v1/runs", "POST", headers=headers, body='{"agent": "echo"}')

    context = engine.run(answer.json["run_id"]).context
    assert (context.trace, context.tracestate) == ("", "")
