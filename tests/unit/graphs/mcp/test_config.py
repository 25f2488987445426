"""Reading mcp.json: what it configures, and what its servers are refused for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sleipnir.graphs.mcp.config import McpConfig, McpServer
from sleipnir.graphs.mcp.filters import MAX_PATTERN_CHARS, MAX_PATTERNS
from sleipnir.graphs.mcp.reading import read_mcp_config
from tests.support.pages import ROOT, blocks

SHIPPED = ROOT / "graphs" / "functions" / "mcp.json"


def write(directory: Path, servers: Any) -> None:
    (directory / "mcp.json").write_text(json.dumps({"mcpServers": servers}, indent=2))


def read(directory: Path, servers: Any) -> McpConfig:
    write(directory, servers)
    config, findings = read_mcp_config(directory)
    assert (findings, config.wrong) == ((), {})
    return config


def wrong_in(directory: Path) -> dict[str, list[str]]:
    """What is wrong with the servers there, by name."""
    config, findings = read_mcp_config(directory)
    assert findings == ()
    assert config.servers.keys().isdisjoint(config.wrong)
    return {name: [found.message for found in wrong] for name, wrong in config.wrong.items()}


def three(directory: Path) -> McpConfig:
    return read(directory, {"b": {"command": "b"}, "a": {"url": "http://a"}, "c": {"command": "c"}})


def test_a_command_makes_it_stdio_and_an_address_http(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        {
            "files": {"command": "files", "args": ["-v"], "env": {"N": 5, "ON": True, "S": "s"}},
            "web": {"url": "https://web/mcp", "headers": {"Authorization": "Bearer {{TOKEN}}"}},
            "old": {"type": "sse", "url": "http://old/sse", "expose": "direct", "disabled": True},
        },
    )

    files, web, old = config.servers.values()
    env = {"N": "5", "ON": "true", "S": "s"}
    assert files == McpServer("files", "stdio", command="files", args=("-v",), env=env)
    assert (web.type, web.headers) == ("http", {"Authorization": "Bearer {{TOKEN}}"})
    assert (old.type, old.expose, old.disabled) == ("sse", "direct", True)


def test_the_programs_that_start_servers_are_known_where_they_can_be(tmp_path: Path) -> None:
    servers = {
        "named": {"command": "uvx"},
        "placed": {"command": "/opt/server"},
        "beside": {"command": "./server"},
        "secret": {"command": "{{PROGRAM}}"},
        "elsewhere": {"command": "uvx", "env": {"PATH": "/opt/bin"}},
        "off": {"command": "uvx", "disabled": True},
        "remote": {"url": "http://a"},
    }

    assert read(tmp_path, servers).programs == {"named": "uvx", "placed": "/opt/server"}


def test_both_files_are_read_and_that_among_the_functions_comes_first(tmp_path: Path) -> None:
    assert read_mcp_config(tmp_path) == (McpConfig(), ())
    write(tmp_path, {"a": {"command": "outer"}, "b": {"command": "b"}, "c": {"wat": 1}})
    (tmp_path / "functions").mkdir()
    write(tmp_path / "functions", {"c": {"command": "c"}, "a": {"command": "inner"}})

    config, findings = read_mcp_config(tmp_path)

    assert findings == ()
    assert {name: server.command for name, server in config.servers.items()} == {
        "c": "c",
        "a": "inner",
        "b": "b",
    }
    assert config.resolve(["all"]) == ("c", "a", "b")
    assert config.wrong == {}


def test_a_second_file_that_cannot_be_read_is_wrong_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "functions").mkdir()
    write(tmp_path / "functions", {"a": {"command": "a"}})
    (tmp_path / "mcp.json").write_text("{")

    config, (finding,) = read_mcp_config(tmp_path)

    assert config == McpConfig()
    assert (finding.code, finding.file) == ("E608", str(tmp_path / "mcp.json"))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ([], "server 's': expected an object"),
        ({}, "server 's': a server of type stdio needs 'command'"),
        ({"command": "x", "comand": 1}, "server 's': unknown field 'comand'"),
        ({"command": "x", "url": "http://x"}, "server 's': a server of type stdio has no 'url'"),
        (
            {"command": "x", "headers": {}},
            "server 's': a server of type stdio has no 'headers'",
        ),
        ({"type": "sse"}, "server 's': a server of type sse needs 'url'"),
        ({"url": "http://x", "args": []}, "server 's': a server of type http has no 'args'"),
        ({"url": "http://x", "env": {}}, "server 's': a server of type http has no 'env'"),
        (
            {"url": "ftp://x"},
            "server 's': url: expected an address that begins with http:// or https://",
        ),
        (
            {"command": "x", "type": "pipe"},
            "server 's': type: expected 'stdio', 'http' or 'sse'",
        ),
        (
            {"command": "x", "env": {"A": [1]}},
            "server 's': env.A: expected an object of texts, integers or booleans",
        ),
        ({"command": "x", "args": "-v"}, "server 's': args: expected a list of texts"),
        ({"command": "x", "disabled": "no"}, "server 's': disabled: expected true or false"),
        *[
            (
                {"command": "x", "allowedTools": allowed},
                "server 's': allowedTools: expected a list of at most 100 patterns of up to 128 "
                "characters",
            )
            for allowed in ("read", {"read": 1}, ["a"] * (MAX_PATTERNS + 1))
        ],
        *[
            (
                {"command": "x", "allowedTools": ["a", allowed]},
                "server 's': allowedTools.1: expected a list of at most 100 patterns of up to 128 "
                "characters",
            )
            for allowed in (5, None, ["a"], "*" * (MAX_PATTERN_CHARS + 1))
        ],
    ],
)
def test_a_wrong_server_concerns_itself_alone(tmp_path: Path, entry: Any, message: str) -> None:
    write(tmp_path, {"good": {"command": "x"}, "s": entry})

    config, findings = read_mcp_config(tmp_path)

    assert findings == ()
    assert list(config.servers) == ["good"]
    assert [(found.code, found.message) for found in config.wrong["s"]] == [("E608", message)]


def test_everything_wrong_with_a_server_is_reported(tmp_path: Path) -> None:
    write(tmp_path, {"n" * 52: {"url": 5, "wat": 1, "wit": 2}})

    (told,) = wrong_in(tmp_path).values()

    assert [text.partition("': ")[2] for text in told] == [
        "its name must have 1 to 51 characters",
        "url: expected an address that begins with http:// or https://",
        "unknown field 'wat'",
        "unknown field 'wit'",
    ]


def test_servers_whose_functions_would_have_the_same_names_are_both_wrong(tmp_path: Path) -> None:
    write(tmp_path, {"a.b": {"command": "x"}, "c": {"command": "c"}})
    (tmp_path / "functions").mkdir()
    write(tmp_path / "functions", {"a b": {"command": "y"}, "a_b": {"command": "z"}})

    assert wrong_in(tmp_path) == {
        "a b": ["server 'a b' would get functions of the same names as 'a_b'"],
        "a_b": ["server 'a_b' would get functions of the same names as 'a b'"],
        "a.b": ["server 'a.b' would get functions of the same names as 'a b'"],
    }
    assert list(read_mcp_config(tmp_path)[0].servers) == ["c"]


def test_keys_that_appear_twice_make_a_server_wrong(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text(
        '{"mcpServers": {"good": {"command": "x"}, "a": {"command": "x"},\n"a": {"command": "y"},'
        '"b": {"command": "x", "env": {"K": "1", "K": "2"}, "command": "y"}}}'
    )

    assert wrong_in(tmp_path) == {
        "a": ["server 'a' appears twice"],
        "b": ["server 'b': key 'command' appears twice", "server 'b': key 'K' appears twice"],
    }


def test_a_file_can_take_neither_much_time_nor_much_memory(tmp_path: Path) -> None:
    deep = "[" * 150 + "]" * 150
    many = ", ".join(f'"s{number}": {{"command": 1}}' for number in range(9_000))
    (tmp_path / "mcp.json").write_text(
        f'{{"mcpServers": {{"good": {{"url": "http://a", "oauth": {deep}}}, {many}}}}}'
    )

    config, findings = read_mcp_config(tmp_path)

    assert findings == ()
    assert (list(config.servers), len(config.wrong)) == (["good"], 9_000)


def test_a_finding_has_its_line_and_a_hint(tmp_path: Path) -> None:
    write(tmp_path, {"s": {"command": "x", "header": {}}})

    (finding,) = read_mcp_config(tmp_path)[0].wrong["s"]

    assert finding.file == str(tmp_path / "mcp.json")
    assert (finding.line, finding.column) == (5, 7)
    assert finding.hint == "did you mean 'headers'?"


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ('{"mcpServers":\n  {,}}', (2, 4), "cannot read mcp.json: Expecting property name"),
        ("[]", (1, 1), "mcp.json: expected an object with the field 'mcpServers'"),
        ('{"servers": {}}', (1, 1), "mcp.json: expected an object with the field 'mcpServers'"),
        ('{"mcpServers": []}', (1, 1), "mcp.json: expected an object with the field 'mcpServers'"),
        ('{"mcpServers": {}, "mcpServers": {}}', (1, 2), "mcp.json: key 'mcpServers' appears"),
        ('{"mcpServers": {"a": NaN}}', (1, 1), "cannot read mcp.json: NaN is not a valid"),
        (f'{{"mcpServers": {"9" * 5_000}}}', (1, 1), "cannot read mcp.json: "),
        ("[" * 100_000, (1, 1), "cannot read mcp.json: it is nested more than 200 levels deep"),
        (
            f'{{"mcpServers": {{}}, "x": {"[" * 201 + "]" * 201}}}',
            (1, 1),
            "cannot read mcp.json: it is nested more than 200 levels deep",
        ),
        (" " * (1024 * 1024 + 1), (1, 1), "cannot read mcp.json: "),
    ],
)
def test_a_file_that_is_no_list_of_servers_is_refused(
    tmp_path: Path, text: str, place: tuple[int, int], message: str
) -> None:
    (tmp_path / "mcp.json").write_text(text)

    config, (finding,) = read_mcp_config(tmp_path)

    assert config == McpConfig()
    assert (finding.line, finding.column) == place
    assert finding.message.startswith(message)


def test_tabs_and_escapes_of_json_are_understood(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text(
        '{\n\t"mcpServers": {\n\t\t"s": {"command": "\\ud83d\\ude00"}}}'
    )

    config, findings = read_mcp_config(tmp_path)

    assert findings == ()
    assert config.servers["s"].command == "\U0001f600"


def test_names_stand_for_servers_aliases_or_all_of_them(tmp_path: Path) -> None:
    config = three(tmp_path).with_aliases({"pair": "c, b", "mine": ["a"], "b": "a"})

    assert config.resolve(["pair", "a"]) == ("c", "b", "a")
    assert config.resolve(["mine", "b", "unknown"]) == ("a", "b", "unknown")
    assert config.resolve(["c", "all"]) == ("c", "b", "a")


def test_all_leaves_out_what_is_disabled(tmp_path: Path) -> None:
    config = read(tmp_path, {"a": {"command": "a", "disabled": True}, "b": {"command": "b"}})

    assert config.resolve(["all"]) == ("b",)


@pytest.mark.parametrize("names", [["pair"], ["all"], ["c", "unknown"], ["pair", "all"]])
def test_a_bundle_means_the_same_servers_in_the_same_order(
    tmp_path: Path, names: list[str]
) -> None:
    config = three(tmp_path).with_aliases({"pair": "c, b"})

    (tmp_path / "mcp.json").write_text(json.dumps(config.bundled(names)))
    bundled, findings = read_mcp_config(tmp_path)

    assert findings == ()
    assert bundled.resolve(names) == config.resolve(names)


def test_a_bundle_holds_no_other_entries_and_these_as_written(tmp_path: Path) -> None:
    entry = {"command": "c", "env": {"KEY": "{{KEY}}"}}
    config = read(tmp_path, {"a": {"command": "a"}, "c": entry})

    assert config.bundled(["c"]) == {"mcpServers": {"c": entry}}


@pytest.mark.parametrize("text", [SHIPPED.read_text(), *blocks("mcp.md", "json")])
def test_files_we_show_can_be_used(tmp_path: Path, text: str) -> None:
    (tmp_path / "mcp.json").write_text(text)

    config, findings = read_mcp_config(tmp_path)

    assert findings == ()
    assert "ddg-search" in config.servers
