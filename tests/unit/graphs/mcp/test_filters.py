"""Filters of MCP tools: what patterns fit, and how layers narrow each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sleipnir.graphs.mcp.config import McpConfig, McpServer
from sleipnir.graphs.mcp.filters import MAX_PATTERN_CHARS, Layer, is_closed, stopping
from sleipnir.graphs.mcp.reading import read_mcp_config

SERVERS = McpConfig(
    {name: McpServer(name, "stdio", command=name) for name in ("files", "web", "mail")},
    {"both": ("files", "web")},
)


@pytest.mark.parametrize(
    ("pattern", "tool", "fits"),
    [
        ("read_file", "read_file", True),
        ("read", "read_file", False),
        ("read_*", "read_", True),
        ("*file", "read_file", True),
        ("*", "", True),
        ("r?ad", "read", True),
        ("r?ad", "rad", False),
        ("Read*", "read_file", False),
        ("repo.get", "repo_get", False),
        ("[rw]ead", "read", False),
        ("[rw]ead", "[rw]ead", True),
        ("a\\*", "a\\b", True),
        ("a*b", "a\nb", True),
        ("", "read", False),
    ],
)
def test_patterns_know_two_signs_and_the_whole_name(pattern: str, tool: str, fits: bool) -> None:
    assert Layer("filter", {"files": [pattern]}).admits("files", tool) is fits


# A limit in seconds that only patterns which try every way to fit would reach.
@pytest.mark.timeout(10)
def test_patterns_take_no_time_whatever_they_are_made_of() -> None:
    hostile = ["*a" * (MAX_PATTERN_CHARS // 2), "*?" * (MAX_PATTERN_CHARS // 2), "*" * 128]

    assert stopping([Layer("filter", {"files": hostile[:2]})], "files", "a" * 30 + "b")
    assert not stopping([Layer("filter", {"files": hostile})], "files", "a" * 100_000 + "b")


def test_keys_that_mean_one_server_have_their_patterns_together() -> None:
    layer = SERVERS.layer("node 'a'", {"both": ["read_*"], "files": ["list"], "mail": []})

    assert layer.name == "'mcp_tools' of node 'a'"
    assert [tool for tool in ("read_x", "list", "send") if layer.admits("files", tool)] == [
        "read_x",
        "list",
    ]
    assert (layer.admits("web", "read_x"), layer.admits("web", "list")) == (True, False)
    assert (is_closed([layer], "mail"), is_closed([layer], "files")) == (True, False)


def test_all_is_every_server() -> None:
    layer = SERVERS.layer("the agent", {"all": ["read_*"], "web": ["get"]})

    assert [layer.admits(server, "get") for server in ("files", "web", "mail")] == [
        False,
        True,
        False,
    ]


def test_layers_only_narrow_and_the_first_that_stops_a_tool_is_named() -> None:
    layers = [
        Layer("outer", {"files": ["read_*"]}),
        Layer("inner", {"files": ["*_all"], "web": []}),
    ]

    assert stopping(layers, "files", "read_all") is None
    assert stopping(layers, "files", "drop_all") is layers[0]
    assert stopping(layers, "files", "read_one") is layers[1]
    assert stopping(layers, "mail", "anything") is None


def test_filters_are_the_same_in_a_bundle(tmp_path: Path) -> None:
    servers = {"files": {"command": "f", "allowedTools": ["read_*"]}, "web": {"command": "w"}}
    (tmp_path / "mcp.json").write_text(
        json.dumps({"mcpServers": {**servers, "x": {"command": "x"}}})
    )
    config, _ = read_mcp_config(tmp_path)
    filtered = McpConfig(
        config.servers,
        {"both": ("files", "web"), "other": ("x",), "one": ("web",)},
        config.entries,
        allowed=config.allowed,
        filter={"both": ["*_all"], "other": ["z"]},
    )

    document = filtered.bundled(["files", "web"], ["one"])
    (tmp_path / "mcp.json").write_text(json.dumps(document))
    bundled, findings = read_mcp_config(tmp_path)

    assert findings == ()
    assert document == {
        "mcpServers": servers,
        "aliases": {"one": ["web"], "both": ["files", "web"]},
        "mcp_tools": {"both": ["*_all"]},
    }
    allowed, setting = bundled.layers
    assert (allowed.patterns, setting.patterns) == (
        {"files": ("read_*",)},
        {"files": ("*_all",), "web": ("*_all",)},
    )
    assert bundled.layer("the agent", {"one": ["a"]}).patterns == {"web": ("a",)}
