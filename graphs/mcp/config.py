"""Reads `mcp.json`: the MCP servers that agents may use, in the format that MCP clients share.

`{{NAME}}`s of secrets are kept as written, and resolved when a server is started.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, ValidationError
from pydantic_core import ErrorDetails

from sleipnir.graphs.document.document import MAX_FILE_BYTES, Document, read_document
from sleipnir.graphs.document.finding import Finding, in_order
from sleipnir.graphs.document.shape import near
from sleipnir.graphs.files import read_text, reason
from sleipnir.records import dataclass

# In `mcp_servers`: all configured servers.
ALL_SERVERS = "all"

# With the longest prefix it must still be a valid function name, of at most 64 characters.
MAX_NAME_CHARS = 51

# A list of names, or one comma-separated string.
Members: TypeAlias = str | list[str]

_CODE = "E608"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_STDIO_FIELDS = ("command", "args", "env", "cwd")
_REMOTE_FIELDS = ("url", "headers", "oauth")


@dataclass(frozen=True, slots=True)
class McpServer:
    """One server of `mcp.json`."""

    name: str
    type: Literal["stdio", "http", "sse"]
    command: str = ""  # stdio: a program that the worker starts
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None  # None: the working directory of the run
    url: str = ""  # http, sse
    headers: Mapping[str, str] = field(default_factory=dict)
    oauth: bool = False  # it requires OAuth, which only `headers` can replace
    expose: Literal["meta", "direct"] = "meta"
    disabled: bool = False

    def with_secrets(self, resolve: Callable[[dict[str, Any]], dict[str, Any]]) -> McpServer:
        """Return the server with the `{{NAME}}`s in its texts resolved, all at once."""
        texts = {name: getattr(self, name) for name in (*_STDIO_FIELDS, "url", "headers")}
        return replace(self, **resolve(texts))


@dataclass(frozen=True, slots=True)
class McpConfig:
    """A whole `mcp.json`, and names that stand for several of its servers."""

    servers: Mapping[str, McpServer] = field(default_factory=dict)
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    entries: Mapping[str, Any] = field(default_factory=dict)  # as written, by name

    def with_aliases(self, aliases: Mapping[str, Members]) -> McpConfig:
        """Add aliases; one with the name of a server is ignored."""
        read = {
            alias: tuple(_members(members))
            for alias, members in aliases.items()
            if alias not in self.servers
        }
        return replace(self, aliases={**self.aliases, **read})

    @property
    def programs(self) -> dict[str, str]:
        """Return the program needed to start each server, on the PATH or at a fixed place.

        Servers for which this is unknown are left out: those with secrets, a relative path or a
        PATH of their own are up to the worker.
        """
        return {
            server.name: server.command
            for server in self.servers.values()
            if server.type == "stdio"
            and not server.disabled
            and "PATH" not in server.env
            and "{{" not in server.command
            and ("/" not in server.command or server.command.startswith("/"))
        }

    def resolve(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the servers that entries of `mcp_servers` stand for, in order, each once.

        A name that is neither a server, an alias nor `all` stands for itself; how to report it is
        up to the caller.
        """
        return tuple(dict.fromkeys(server for name in names for server in self._meant_by(name)))

    def bundled(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the `mcp.json` for a bundle, with only what these entries of `mcp_servers` need.

        When it is read back, the same entries stand for the same servers in the same order.
        """
        names = tuple(names)
        wanted = [server for server in self.resolve(names) if server in self.entries]
        document: dict[str, Any] = {"mcpServers": {name: self.entries[name] for name in wanted}}
        if aliases := {name: list(self.aliases[name]) for name in names if name in self.aliases}:
            document["aliases"] = aliases
        return document

    def _meant_by(self, name: str) -> tuple[str, ...]:
        if name == ALL_SERVERS and name not in self.servers:
            return tuple(server.name for server in self.servers.values() if not server.disabled)
        return self.aliases.get(name, (name,))


def function_suffix(server: str) -> str:
    """Return a server's name with what function names cannot contain replaced."""
    return _NOT_IN_NAMES.sub("_", server)


def mcp_file(directory: Path) -> Path | None:
    """Return the `mcp.json` of a configuration directory, or of a bundle; None without one."""
    places = (directory / "functions" / "mcp.json", directory / "mcp.json")
    return next((place for place in places if os.path.lexists(place)), None)


def read_mcp_config(directory: Path) -> tuple[McpConfig, tuple[Finding, ...]]:
    """Return the servers configured there; none, and E608, if anything in the file is wrong."""
    file = mcp_file(directory)
    if file is None:
        return McpConfig(), ()
    try:
        data = json.loads(read_text(file, MAX_FILE_BYTES, encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        message = f"cannot read mcp.json: {error.msg}"
        finding = Finding(_CODE, message, file=str(file), line=error.lineno, column=error.colno)
        return McpConfig(), (finding,)
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        message = f"cannot read mcp.json: {reason(error)}"
        return McpConfig(), (Finding(_CODE, message, file=str(file)),)
    reading = _ConfigReader(file)
    config = reading.config(data)
    if reading.findings:
        return McpConfig(), in_order(reading.findings)
    return config, ()


def _members(members: Members) -> Iterator[str]:
    parts = members.split(",") if isinstance(members, str) else members
    return (part.strip() for part in parts if part.strip())


class _Entry(BaseModel):
    """The fields of one server, whatever its type."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["stdio", "http", "sse"] | None = None
    command: StrictStr | None = Field(None, min_length=1)
    args: list[StrictStr] = []
    env: dict[str, StrictStr | StrictBool | StrictInt] = {}
    cwd: StrictStr | None = None
    url: StrictStr | None = Field(None, pattern=r"^(https?://|\{\{)")
    headers: dict[str, StrictStr] = {}
    oauth: Any = None
    expose: Literal["meta", "direct"] = "meta"
    disabled: StrictBool = False


class _ConfigReader:
    """One pass over a file's data; afterwards `findings` has what is wrong."""

    def __init__(self, file: Path) -> None:
        self._file = file
        # JSON is YAML except for a few corner cases, for which only the file can be named.
        self._places: Document | None
        self._places, found = read_document(file)
        # Report duplicate keys: the JSON parser would silently use the last one.
        self.findings = [replace(f, code=_CODE) for f in found if f.code == "E004"]

    def config(self, data: Any) -> McpConfig:
        entries = data.get("mcpServers") if isinstance(data, dict) else None
        if not isinstance(entries, dict):
            self._report("mcp.json: expected an object with the field 'mcpServers'")
            return McpConfig()
        servers = {name: self._server(name, entry) for name, entry in entries.items()}
        self._check_names(entries)
        return McpConfig(
            {name: server for name, server in servers.items() if server is not None},
            self._aliases(data.get("aliases", {})),
            entries,
        )

    def _aliases(self, aliases: Any) -> dict[str, tuple[str, ...]]:
        """Read the aliases of a bundle; users define theirs in the settings."""
        lists = isinstance(aliases, dict) and all(isinstance(v, list) for v in aliases.values())
        if not lists:
            self._report("mcp.json: aliases: expected an object of lists", "aliases")
            return {}
        return {alias: tuple(map(str, members)) for alias, members in aliases.items()}

    def _report(self, message: str, *path: str | int, hint: str | None = None) -> None:
        if self._places is not None:
            self.findings.append(self._places.finding(_CODE, message, *path, hint=hint))
        else:
            self.findings.append(Finding(_CODE, message, hint=hint, file=str(self._file)))

    def _check_names(self, names: Iterable[str]) -> None:
        by_suffix: dict[str, str] = {}
        for name in names:
            if not 0 < len(name) <= MAX_NAME_CHARS:
                message = f"server '{name}': its name must have 1 to {MAX_NAME_CHARS} characters"
                self._report(message, "mcpServers", name)
            other = by_suffix.setdefault(function_suffix(name), name)
            if other != name:
                message = f"servers '{other}' and '{name}' would get functions of the same names"
                self._report(message, "mcpServers", name, hint="rename one of them")

    def _server(self, name: str, entry: Any) -> McpServer | None:
        if not isinstance(entry, dict):
            self._report(f"server '{name}': expected an object", "mcpServers", name)
            return None
        try:
            fields = _Entry.model_validate(entry)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                self._misfit(name, detail)
            return None
        kind = fields.type or ("http" if fields.url and not fields.command else "stdio")
        self._check_fields(name, kind, entry)
        return McpServer(
            name=name,
            type=kind,
            command=fields.command or "",
            args=tuple(fields.args),
            env={variable: _as_text(value) for variable, value in fields.env.items()},
            cwd=fields.cwd,
            url=fields.url or "",
            headers=fields.headers,
            oauth=bool(fields.oauth),
            expose=fields.expose,
            disabled=fields.disabled,
        )

    def _check_fields(self, name: str, kind: str, entry: Mapping[str, Any]) -> None:
        """Check that a server has the fields of its type, and no others."""
        required, foreign = (
            ("command", _REMOTE_FIELDS) if kind == "stdio" else ("url", _STDIO_FIELDS)
        )
        for field_name in foreign:
            if field_name in entry:
                message = f"server '{name}': a server of type {kind} has no '{field_name}'"
                self._report(message, "mcpServers", name, field_name)
        if entry.get(required) is None:
            message = f"server '{name}': a server of type {kind} needs '{required}'"
            self._report(message, "mcpServers", name)

    def _misfit(self, name: str, detail: ErrorDetails) -> None:
        path = _place(detail)
        where = ".".join(str(step) for step in path)
        if detail["type"] == "extra_forbidden":
            message = f"server '{name}': unknown field '{where}'"
            hint = near(where, _Entry.model_fields)
            self._report(message, "mcpServers", name, *path, hint=hint)
            return
        expected = _EXPECTED.get(str(path[0]), detail["msg"])
        message = f"server '{name}': {where}: expected {expected}"
        self._report(message, "mcpServers", name, *path)


_EXPECTED = {
    "type": "'stdio', 'http' or 'sse'",
    "command": "the name of a program",
    "args": "a list of texts",
    "env": "an object of texts, integers or booleans",
    "cwd": "the path of a directory",
    "url": "an address that begins with http:// or https://",
    "headers": "an object of texts",
    "expose": "'meta' or 'direct'",
    "disabled": "true or false",
}


def _place(detail: ErrorDetails) -> tuple[str | int, ...]:
    """Return the place within a server's entry: a field, and possibly a key in it."""
    return detail["loc"][:2]


def _as_text(value: str | bool | int) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)
