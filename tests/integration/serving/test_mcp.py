"""Agents as tools: the published client of MCP against the monitor."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitResult

from sleipnir.scheduler.config.monitor_users import ROLES, MonitorUsers, new_line
from sleipnir.worker.monitor.access import Access
from tests.support.approvals import ASKS
from tests.support.engine import Engine
from tests.support.mcp_clients import talk
from tests.support.model_server import ModelServer, calls, says
from tests.support.site import KEY, Answer, ServedSite

MODES = ["legacy", "2026-07-28"]
GREETER = """
description: Greets people.
variables:
  - {name: tone, description: how, default: warm}
  - {name: language, description: in which language}
  - {name: key, description: of a service, default: k, secret: true}
initial_state: {times: 1, loud: false, names: []}
x-form: {tone: {title: Tone, enum: [warm, cold]}}
start: done
nodes:
  done: {type: end, value: "{{names}}", output: "{{tone}} {{language}} {{times}} {{names}}"}
"""
MOOD = {
    "type": "object",
    "properties": {"mood": {"type": "string", "enum": ["good", "bad"]}},
    "required": ["mood"],
}
TYPED = """
start: judge
nodes:
  judge:
    type: llm
    model: openai:m
    prompt: "{{initial_prompt}}"
    output_schema:
      type: object
      properties: {mood: {type: string, enum: [good, bad]}}
      required: [mood]
    state_updates: {verdict: "{{output}}"}
    next: done
  done: {type: end, value: "{{verdict}}"}
"""
FAILS = """
settings: {tolerate_failures: false}
start: s
nodes:
  s: {type: script, script: s.sh, next: z}
  z: {type: end}
"""
TOOLS = '''
def wipe() -> str:
    """Removes something."""
    from sleipnir.tool import guard

    guard("Really?")
    return "wiped"
'''


def text_of(result: CallToolResult) -> str:
    """What a tool has returned."""
    return "\n".join(part.text for part in result.content if part.type == "text")


def call(site: ServedSite, tool: str, *, mode: str = MODES[1], **options: Any) -> CallToolResult:
    """Call a tool; `options` are the client's, but for `arguments`."""
    arguments = options.pop("arguments", {"prompt": "Go."})

    async def program(client: Client) -> CallToolResult:
        return await client.call_tool(tool, arguments)

    return talk(site.port, program, mode=mode, **options)


def post(site: ServedSite, message: dict[str, Any], session: str, key: str = KEY) -> Answer:
    """Send a message as a client of the older version does."""
    headers = {
        "Authorization": f"Bearer {key}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-11-25",
        "Mcp-Session-Id": session,
    }
    return site.ask("/mcp", "POST", headers=headers, body=json.dumps({"jsonrpc": "2.0", **message}))


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_is_a_tool(engine: Engine, site: ServedSite, mode: str) -> None:
    async def program(client: Client) -> Any:
        tools = await client.list_tools()
        result = await client.call_tool("echo", {"prompt": "Hello", "unknown": 1})
        return client.protocol_version, [tool.name for tool in tools.tools], result

    version, names, result = talk(site.port, program, mode=mode)

    assert version == ("2025-11-25" if mode == "legacy" else mode)
    assert names == ["echo", "run_result"]
    assert text_of(result) == "Hello"
    (run_id,) = engine.newest_runs()
    assert result.meta["sleipnir/run_id"] == run_id


def test_arguments_are_the_prompt_variables_and_state_of_an_agent(
    engine: Engine, site: ServedSite
) -> None:
    engine.write("greeter", GREETER)
    engine.write("mr. smith", "start: z\nnodes: {z: {type: end}}")

    async def program(client: Client) -> Any:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        arguments = {"prompt": "a", "language": "en", "times": 2, "names": ["Ada"], "tone": "cold"}
        return tools, await client.call_tool("greeter", arguments)

    tools, result = talk(site.port, program)

    greeter = tools["greeter"]
    assert "mr__smith" in tools
    assert greeter.description == "Greets people."
    assert greeter.input_schema["required"] == ["language"]
    assert greeter.input_schema["properties"] == {
        "prompt": {"type": "string", "description": "what it is to do"},
        "times": {"type": "number", "default": 1},
        "loud": {"type": "boolean", "default": False},
        "names": {"type": "array", "default": []},
        "tone": {
            "type": "string",
            "description": "how",
            "default": "warm",
            "title": "Tone",
            "enum": ["warm", "cold"],
        },
        "language": {"type": "string", "description": "in which language"},
    }
    assert text_of(result) == 'cold en 2 ["Ada"]'


def test_a_value_that_is_an_object_is_structured(engine: Engine, site: ServedSite) -> None:
    engine.write(
        "valued",
        """
        initial_state: {found: {of: here}}
        start: z
        nodes: {z: {type: end, value: "{{found}}"}}
        """,
    )

    result = call(site, "valued", arguments={"found": {"n": 1}})

    assert result.structured_content == {"n": 1}


@pytest.mark.parametrize("mode", MODES)
def test_a_tool_says_of_what_form_its_result_is(
    engine: Engine, site: ServedSite, server: ModelServer, mode: str
) -> None:
    engine.write("typed", TYPED)
    server.when("Judge", says('{"mood": "good"}'))

    async def program(client: Client) -> Any:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        return tools["typed"].output_schema, await client.call_tool("typed", {"prompt": "Judge."})

    # The client checks the result against the schema.
    schema, result = talk(site.port, program, mode=mode)

    assert schema["type"] == "object"
    assert MOOD in schema["anyOf"]
    assert result.structured_content == {"mood": "good"}


def test_a_result_of_another_form_than_was_said_is_an_error(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    engine.write("typed", TYPED)
    server.when("Judge", says("no JSON"))

    async def program(client: Client) -> Any:
        await client.list_tools()
        return await client.call_tool("typed", {"prompt": "Judge."})

    result = talk(site.port, program)

    (run_id,) = engine.newest_runs()
    assert str(engine.run(run_id).status) == "succeeded"  # it outlives the failure of its node
    assert result.is_error
    assert "of the form that this tool returns" in text_of(result)


def test_what_has_no_result_yet_is_of_the_form_as_well(
    engine: Engine, idle_site: ServedSite
) -> None:
    engine.write("typed", TYPED)
    engine.configure(mcp_serve_wait_s=0.05, serve={"agents": ["typed"], "mcp": True})

    async def program(client: Client) -> Any:
        await client.list_tools()
        return await client.call_tool("typed", {"prompt": "a"})

    with ServedSite(engine.client) as early:
        result = talk(early.port, program)

    (run_id,) = engine.newest_runs()
    assert result.structured_content == {"run_id": run_id, "status": "running"}


def test_a_question_is_of_the_form_as_well(engine: Engine, site: ServedSite) -> None:
    asks = "ask: {type: input, question: Sure?, next: judge}"
    graph = TYPED.replace("start: judge\nnodes:", f"start: ask\nnodes:\n  {asks}")
    engine.write("typed", graph)

    async def program(client: Client) -> Any:
        await client.list_tools()
        return await client.call_tool("typed", {"prompt": "a"})

    result = talk(site.port, program)

    (run_id,) = engine.newest_runs()
    assert result.structured_content == {"run_id": run_id, "status": "waiting"}


@pytest.mark.parametrize(
    "change",
    [
        ('value: "{{verdict}}"', 'value: "{{verdict.mood}}"'),
        ('value: "{{verdict}}"', 'value: "It is {{verdict}}"'),
        ('value: "{{verdict}}"', 'output: "{{verdict}}"'),
        ("type: object", "type: array"),
        ("start: judge", "initial_state: {verdict: {}}\nstart: judge"),
        ('"{{output}}"', '"{{output.mood}}"'),
        ("nodes:", "nodes:\n  other: {type: set, values: {verdict: 1}, next: done}"),
    ],
)
def test_a_form_that_is_not_certain_is_not_said(
    engine: Engine, idle_site: ServedSite, change: tuple[str, str]
) -> None:
    assert change[0] in TYPED
    engine.write("typed", TYPED.replace(*change))

    async def program(client: Client) -> Any:
        return {tool.name: tool for tool in (await client.list_tools()).tools}

    assert talk(idle_site.port, program)["typed"].output_schema is None


def test_a_failure_is_an_error_of_the_tool(engine: Engine, site: ServedSite) -> None:
    engine.write("broken", FAILS, {"s.sh": "exit 3"})
    engine.write("greeter", GREETER)

    failed, refused = call(site, "broken"), call(site, "greeter", arguments={"times": "many"})

    run_id, *_ = engine.newest_runs()
    assert failed.is_error
    assert engine.failure(run_id).code in text_of(failed)
    assert refused.is_error
    assert "language" in text_of(refused) or "times" in text_of(refused)
    for tool in ("own", "nobody"):
        with pytest.raises(MCPError, match="there is no tool"):
            call(site, tool)


@pytest.mark.parametrize("mode", MODES)
def test_what_happens_is_told_as_progress(engine: Engine, site: ServedSite, mode: str) -> None:
    told: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    async def program(client: Client) -> Any:
        return await client.call_tool("echo", {"prompt": "a"}, progress_callback=note)

    talk(site.port, program, mode=mode)

    assert [number for number, _ in told] == [*range(1, len(told) + 1)]
    assert any("echo" in (line or "") for _, line in told)


@pytest.mark.parametrize("mode", MODES)
def test_a_long_call_returns_the_run_and_its_result_is_waited_for(
    engine: Engine, idle_site: ServedSite, mode: str
) -> None:
    engine.configure(mcp_serve_wait_s=0.05, serve={"agents": ["echo"], "mcp": True})
    with ServedSite(engine.client) as site:
        early = call(site, "echo", mode=mode, arguments={"prompt": "Hello"})
        (run_id,) = engine.newest_runs()
        again = call(site, "run_result", mode=mode, arguments={"run_id": run_id})
        engine.drive()
        late = call(site, "run_result", mode=mode, arguments={"run_id": run_id})
        other = call(site, "run_result", mode=mode, arguments={"run_id": "0" * 16})

    assert "run_result" in text_of(early)
    assert run_id in text_of(early)
    assert text_of(again) == text_of(early)
    assert text_of(late) == "Hello"
    assert other.is_error
    assert engine.newest_runs() == [run_id]


def test_runs_of_agents_that_are_not_served_are_unknown(engine: Engine, site: ServedSite) -> None:
    run_id = engine.submit_agent("own", "start: z\nnodes: {z: {type: end, output: secret}}")

    result = call(site, "run_result", arguments={"run_id": run_id})

    assert result.is_error
    assert "secret" not in text_of(result)


def test_a_client_s_user_is_asked(engine: Engine, site: ServedSite) -> None:
    engine.write("asks", ASKS)
    asked: list[Any] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        asked.append(params)
        return ElicitResult(action="accept", content={"answer": "yes"})

    result = call(site, "asks", elicitation_callback=answer)

    (params,) = asked
    assert text_of(result) == "published"
    assert params.message.startswith("Publish?")
    assert params.requested_schema["properties"] == {
        "answer": {"type": "string", "enum": ["yes", "no"]}
    }
    assert len(engine.newest_runs()) == 1


def test_who_does_not_answer_leaves_the_question_open(engine: Engine, site: ServedSite) -> None:
    engine.write("asks", ASKS)

    async def decline(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="decline")

    result = call(site, "asks", elicitation_callback=decline)

    assert "Publish?" in text_of(result)
    assert len(engine.inbox()) == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_client_that_cannot_ask_gets_the_question(
    engine: Engine, site: ServedSite, mode: str
) -> None:
    engine.write("asks", ASKS)

    asked = call(site, "asks", mode=mode)
    (run_id,) = engine.newest_runs()
    answer = {"run_id": run_id, "answer": "no"}
    result = call(site, "run_result", mode=mode, arguments=answer)
    late = call(site, "run_result", mode=mode, arguments=answer)

    assert "Publish?" in text_of(asked)
    assert f"run_result with run_id {run_id}" in text_of(asked)
    assert text_of(result) == "dropped"
    assert late.is_error


def test_consent_to_a_call_is_not_a_model_s_to_give(
    engine: Engine, site: ServedSite, server: ModelServer
) -> None:
    engine.write_normal("talker", "model: openai:m\n", {"tools.py": TOOLS})
    server.script.add(calls(("wipe", {})), says("Done."))

    async def consent(context: Any, params: Any) -> ElicitResult:
        assert "wipe" in params.message
        return ElicitResult(action="accept", content={"answer": "yes"})

    asked = call(site, "talker")
    (run_id,) = engine.newest_runs()
    refused = call(site, "run_result", arguments={"run_id": run_id, "answer": "yes"})
    given = call(site, "run_result", arguments={"run_id": run_id}, elicitation_callback=consent)

    assert "Only a person" in text_of(asked)
    assert text_of(refused) == text_of(asked)
    assert text_of(given) == "Done."


def test_a_request_that_is_sent_again_starts_nothing_new(engine: Engine, site: ServedSite) -> None:
    params = {"name": "echo", "arguments": {"prompt": "a"}}

    for session in ("one", "one", "two"):
        answer = post(site, {"id": 7, "method": "tools/call", "params": params}, session)
        assert answer.status == 200

    assert len(engine.newest_runs()) == 2


def test_every_client_gets_a_session_that_nobody_keeps(site: ServedSite) -> None:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "a", "version": "1"},
    }
    found = [post(site, {"id": 1, "method": "initialize", "params": params}, "") for _ in range(2)]

    assert len({answer.headers["Mcp-Session-Id"] for answer in found}) == 2
    ours = f'"serverInfo":{{"name":"sleipnir","version":"{metadata.version("sleipnir")}"}}'
    assert ours in found[0].text


def test_only_who_may_operate_calls_tools(engine: Engine, site: ServedSite, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("\n".join(new_line(f"api-{role}", role, role) for role in ROLES))
    message = {"id": 1, "method": "tools/list"}

    with ServedSite(engine.client, Access(users=MonitorUsers(users))) as guarded:
        keys = ("x", "api-read.read", "api-answer.answer", "api-operate.operate")
        statuses = [post(guarded, message, "s", key).status for key in keys]
    engine.configure()
    with ServedSite(engine.client) as off:
        none = post(off, message, "s")

    assert statuses == [401, 403, 403, 200]
    assert none.status == 404
    assert site.ask("/mcp").status == 405


def test_who_did_what_is_in_the_audit_log(engine: Engine, site: ServedSite) -> None:
    engine.write("asks", ASKS)

    call(site, "asks")
    (run_id,) = engine.newest_runs()
    call(site, "run_result", arguments={"run_id": run_id, "answer": "no"})

    entries = site.ask("/api/v1/audit").json["acts"]
    assert [(each["act"], each["via"], each["who"]) for each in entries] == [
        ("answer", "mcp", "operator"),
        ("submit", "mcp", "operator"),
    ]
