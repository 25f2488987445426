"""What no client of the protocols sends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.engine import Engine
from tests.support.site import KEY, ServedSite

USER = {"role": "user", "content": "a"}
CHAT = {"model": "echo", "messages": [USER]}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}


@pytest.mark.parametrize(
    "body",
    [
        "",
        "no JSON",
        "[]",
        "[" * 100_000,
        '{"model": "echo", "messages": [{"role": "user", "content": "\\ud800"}]}',
        *(
            json.dumps(CHAT | changed)
            for changed in (
                {"model": 1},
                {"model": "a/../echo"},
                {"model": "x" * 100_000},
                {"messages": "a"},
                {"messages": [{"role": "wizard", "content": "a"}]},
                {"messages": [{"role": "user", "content": [{"type": 1}]}]},
                {"messages": [{"role": "user", "content": {"a": 1}}]},
                {"stream": {"a": 1}},
                {"metadata": "a"},
                {"metadata": {"session": ["a"]}},
                {"metadata": {"session": "a\nb"}},
                {"metadata": {"cancel_on_disconnect": "perhaps"}},
            )
        ),
    ],
)
def test_a_chat_that_makes_no_sense_is_refused(engine: Engine, site: ServedSite, body: str) -> None:
    answer = site.ask("/v1/chat/completions", "POST", body=body)

    assert answer.status in (400, 404)
    assert isinstance(answer.json["error"]["message"], str)
    assert len(answer.text) < 2_000
    assert engine.newest_runs() == []


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28", "1999-01-01", ""])
@pytest.mark.parametrize(
    "message",
    [
        "",
        "no JSON",
        "[]",
        "[" * 100_000,
        json.dumps({**CALL, "params": {"name": 1}}),
        json.dumps({**CALL, "params": {"name": "echo", "arguments": "a"}}),
        json.dumps({**CALL, "params": {"name": "run_result", "arguments": {"run_id": 7}}}),
        json.dumps({**CALL, "params": {"name": "run_result", "arguments": {"run_id": "../x"}}}),
        json.dumps({**CALL, "params": {"name": "echo", "requestState": "../x"}}),
        json.dumps({**CALL, "id": {"a": 1}, "params": {"name": "echo"}}),
        json.dumps({**CALL, "method": "tasks/get", "params": {"taskId": "../x"}}),
        json.dumps({**CALL, "method": "nothing/there"}),
    ],
)
def test_a_message_that_makes_no_sense_is_an_error(
    engine: Engine, site: ServedSite, message: str, version: str
) -> None:
    headers: dict[str, Any] = {
        "Authorization": f"Bearer {KEY}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        **({"MCP-Protocol-Version": version} if version else {}),
    }

    answer = site.ask("/mcp", "POST", headers=headers, body=message)

    assert answer.status in (200, 202, 400, 404)
    assert "Traceback" not in answer.text
    found = [line for line in answer.text.splitlines() if "{" in line]
    said = json.loads(found[-1].removeprefix("data: ")) if found else {"error": None}
    assert "error" in said or said["result"].get("isError")
    assert engine.newest_runs() == []


def test_other_methods_addresses_and_kinds_are_refused(idle_site: ServedSite) -> None:
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "text/plain", "Accept": "*/*"}

    answers = [
        idle_site.ask("/mcp", "POST", headers=headers, body=json.dumps(CALL)),
        idle_site.ask("/v1/models", "DELETE"),
        idle_site.ask("/v1/nothing"),
        idle_site.ask("/mcp/more", "POST", body="{}"),
    ]

    assert [answer.status for answer in answers] == [400, 405, 404, 404]
