"""What MCP servers say: a value for the model, or one line of what was wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from sleipnir.graphs.mcp.config import McpConfig, McpServer
from sleipnir.graphs.state import encode
from sleipnir.scheduler.config.secrets import Secrets
from sleipnir.worker.mcp.failures import McpFailed
from sleipnir.worker.mcp.functions import McpServers
from sleipnir.worker.mcp.pool import McpLimits, McpPool
from tests.support.fuzzing import (
    EXAMPLES,
    assert_one_line,
    fuzz,
    mutated,
    objects,
    rarely,
    respelled,
    texts,
    values,
)
from tests.support.mcp import odd_mcp_server

LIMIT_S = 60.0
SOUND = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
LIST = {
    "tools": [
        {
            "name": "find",
            "title": "Find",
            "description": "Finds things.",
            "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
            "outputSchema": {"type": "object", "required": ["b"]},
            "annotations": {"readOnlyHint": True},
        },
        {"name": "echo", "inputSchema": {"type": "object"}},
    ],
}
RESULT = {
    "content": [
        {"type": "text", "text": "five", "annotations": {"audience": ["user"]}},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///x", "text": "t"}},
        {"type": "resource_link", "uri": "file:///x", "name": "x"},
    ],
    "isError": False,
    "structuredContent": {"n": 5},
}


@pytest.fixture(scope="module")
def pool() -> Iterator[McpPool]:
    """One for all examples; it asks for the list of tools each time."""
    pool = McpPool(McpLimits(tools_s=0.0))
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("odd")


@pytest.fixture
def server(workdir: Path) -> McpServer:
    listed = workdir / "listed.json"
    listed.write_text(json.dumps(SOUND))
    return odd_mcp_server(listed)


def blocks() -> SearchStrategy[Any]:
    return objects(
        type=st.sampled_from(["text", "image", "audio", "resource", "resource_link", "odd"]),
        text=texts(),
        data=st.sampled_from(["", "AAAA", "not base64"]),
        mimeType=texts(),
        uri=st.sampled_from(["file:///x", "x", ""]),
        resource=objects(uri="file:///x", text="t", blob="AAAA"),
    )


def answers() -> SearchStrategy[bytes]:
    result = objects(
        content=st.lists(rarely(blocks()), max_size=3),
        isError=st.booleans(),
        structuredContent=st.dictionaries(texts(), values(), max_size=2),
        _meta=st.just({}),
    )
    error = objects(code=st.sampled_from([-32000, 0, 1]), message=texts(), data=values())
    results = st.tuples(st.just("result"), respelled(RESULT) | mutated(RESULT) | rarely(result))
    errors = st.tuples(st.just("error"), rarely(error))
    message = (results | errors).map(
        lambda pair: (
            json.dumps({"jsonrpc": "2.0", "id": "@ID@", pair[0]: pair[1]})
            .replace('"@ID@"', "@ID@")
            .encode()
        )
    )
    noise = st.binary(max_size=60) | values().map(lambda value: json.dumps(value).encode())
    return st.integers(0, 4).flatmap(lambda die: message if die else noise)


@EXAMPLES
def test_an_answer_is_a_value_or_a_failure(
    examples: int, pool: McpPool, server: McpServer, workdir: Path
) -> None:
    def check(answer: bytes) -> None:
        try:
            result = pool.call(server, workdir, "echo", {"hex": answer.hex()}, LIMIT_S)
        except McpFailed as error:
            assert_one_line(str(error))
            return
        assert set(result) <= {"content", "isError", "structuredContent"}
        encode(result).encode()

    fuzz(examples, answers(), check)


def lists_of_tools() -> SearchStrategy[Any]:
    tool = objects(
        name=st.sampled_from(["echo", "", "a b", "x" * 200]) | texts(),
        description=texts(),
        inputSchema=objects(type="object", properties=values(), required=["a"]),
    )
    made = objects(tools=st.lists(rarely(tool), max_size=3), nextCursor=st.just(None))
    return respelled(LIST) | mutated(LIST) | made


def questions() -> SearchStrategy[dict[str, Any]]:
    """Arguments of the functions that search, describe and invoke."""
    tools = st.sampled_from(["find", "echo"]) | texts()
    return objects(query=texts(), top_k=st.integers(-5, 50), tool=tools, arguments=st.just({}))


@EXAMPLES
def test_a_list_of_tools_is_offered_or_warned_of(
    examples: int, pool: McpPool, server: McpServer, workdir: Path
) -> None:
    secrets = Secrets(workdir / "no-such-file", {})

    def check(example: tuple[Any, Any, Any]) -> None:
        listed, asked, direct = example
        (workdir / "listed.json").write_text(json.dumps(listed))
        one = replace(server, expose="direct" if direct else "meta")
        config = McpConfig({one.name: one})
        resolved = McpServers(config, ("all",), pool, secrets, workdir, LIMIT_S).resolve()
        for warning in resolved.warnings:
            assert_one_line(warning)
        for function in resolved.functions:
            json.dumps(function.declaration()).encode()
            assert 0 < len(function.name) <= 64
            encode(function.call(asked)).encode()

    fuzz(examples, st.tuples(lists_of_tools(), questions(), st.booleans()), check)
