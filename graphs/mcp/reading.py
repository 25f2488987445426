"""Reads `mcp.json`, in the format that MCP clients share: its servers, and what is wrong with them.

Whatever is wrong with one server concerns that server alone.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
)
from pydantic_core import ErrorDetails

from sleipnir.graphs.document.document import MAX_FILE_BYTES, KeyPath, read_document
from sleipnir.graphs.document.finding import Finding, in_order, printable
from sleipnir.graphs.document.shape import near
from sleipnir.graphs.field_types import ToolPatterns
from sleipnir.graphs.files import read_text, reason
from sleipnir.graphs.mcp.config import McpConfig, McpServer, function_suffix
from sleipnir.graphs.mcp.filters import MAX_PATTERN_CHARS, MAX_PATTERNS
from sleipnir.graphs.state import decode

# With the longest prefix it must still be a valid function name, of at most 64 characters.
MAX_NAME_CHARS = 51

_CODE = "E608"
_STDIO_FIELDS = ("command", "args", "env", "cwd")
_REMOTE_FIELDS = ("url", "headers", "oauth")


def mcp_files(directory: Path) -> list[Path]:
    """Return the `mcp.json` of a configuration directory, or of a bundle: none, one or two.

    A server in the first one hides a server of the same name in the second.
    """
    places = (directory / "functions" / "mcp.json", directory / "mcp.json")
    return [place for place in places if os.path.lexists(place)]


def read_mcp_config(directory: Path) -> tuple[McpConfig, tuple[Finding, ...]]:
    """Return the servers configured there; none, and E608, if a file is wrong as a whole."""
    return read_mcp_files(mcp_files(directory))


def read_mcp_files(files: Iterable[Path]) -> tuple[McpConfig, tuple[Finding, ...]]:
    """Return the servers of these files, the first one before others; as `read_mcp_config`."""
    readings = [_Reading(file) for file in files]
    unusable = [finding for reading in readings for finding in reading.findings]
    if unusable or not readings:
        return McpConfig(), in_order(unusable)
    owners: dict[str, _Reading] = {}
    for reading in readings:
        for name in reading.entries:
            owners.setdefault(name, reading)
    _refuse_clashes(owners)
    wrong = {name: tuple(each.wrong[name]) for name, each in owners.items() if name in each.wrong}
    config = McpConfig(
        servers={name: owners[name].servers[name] for name in owners if name not in wrong},
        aliases=readings[0].aliases,
        entries={name: owners[name].entries[name] for name in owners},
        wrong=wrong,
        allowed={name: each.allowed[name] for name, each in owners.items() if name in each.allowed},
        filter=readings[0].filter,
    )
    return config, ()


def _refuse_clashes(owners: Mapping[str, _Reading]) -> None:
    """Refuse servers whose functions would have the same names."""
    by_suffix: dict[str, list[str]] = {}
    for name in owners:
        by_suffix.setdefault(function_suffix(name), []).append(name)
    for names in by_suffix.values():
        for name in names if len(names) > 1 else ():
            other = names[0] if name != names[0] else names[1]
            message = f"server '{name}' would get functions of the same names as '{other}'"
            owners[name].refuse(name, message, hint="rename one of them")


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
    allowed_tools: ToolPatterns | None = Field(None, alias="allowedTools")


class _Object(dict[str, Any]):
    """An object of JSON that remembers which keys it has twice: the last value counts."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        times = Counter(key for key, _ in pairs) if len(pairs) > len(self) else {}
        self.twice = [key for key, count in times.items() if count > 1]


class _Reading:
    """One file: its servers by name, what is wrong with others, and with the file as a whole."""

    def __init__(self, file: Path) -> None:
        self.findings: list[Finding] = []
        self.entries: dict[str, Any] = {}
        self.servers: dict[str, McpServer] = {}
        self.allowed: dict[str, tuple[str, ...]] = {}
        self.wrong: dict[str, list[Finding]] = {}
        self.aliases: dict[str, tuple[str, ...]] = {}
        self.filter: dict[str, list[str]] = {}
        self._file = file
        data = self._data()
        if self.findings:
            return
        # JSON is YAML except for a few corner cases, for which only the file can be named.
        self._places, _ = read_document(file)
        self._read(data)

    def refuse(self, name: str, message: str, *path: str | int, hint: str | None = None) -> None:
        """Note what is wrong with a server, at a place within its entry."""
        found = self._finding(message, "mcpServers", name, *path, hint=hint)
        self.wrong.setdefault(name, []).append(found)

    def _data(self) -> Any:
        try:
            text = read_text(self._file, MAX_FILE_BYTES, encoding="utf-8-sig")
            decode(text)  # refuses what is nested too deeply, and numbers that are no numbers
            return json.loads(text, object_pairs_hook=_Object)
        except json.JSONDecodeError as error:
            why, line, column = error.msg, error.lineno, error.colno
        except (OSError, ValueError) as error:
            why = reason(error) if isinstance(error, OSError | UnicodeDecodeError) else str(error)
            line, column = 1, 1
        found = Finding(_CODE, f"cannot read mcp.json: {why}", file=str(self._file))
        self.findings.append(replace(found, line=line, column=column))
        return None

    def _read(self, data: Any) -> None:
        entries = data.get("mcpServers") if isinstance(data, _Object) else None
        if not isinstance(entries, _Object):
            self._report("mcp.json: expected an object with the field 'mcpServers'")
            return
        for key in data.twice:
            self._report(f"mcp.json: key '{key}' appears twice", key)
        self.entries = entries
        for name, entry in entries.items():
            self._server(name, entry)
        for name in entries.twice:
            self.refuse(name, f"server '{name}' appears twice")
        # Both are in bundles only; users have settings of these names.
        self.aliases = self._lists(data, "aliases")
        self.filter = self._lists(data, "mcp_tools")

    def _lists(self, data: Mapping[str, Any], field: str) -> dict[str, Any]:
        found = data.get(field, {})
        lists = isinstance(found, dict) and all(isinstance(each, list) for each in found.values())
        if not lists or not all(isinstance(text, str) for each in found.values() for text in each):
            self._report(f"mcp.json: {field}: expected an object of lists of texts", field)
            return {}
        return {name: tuple(each) for name, each in found.items()}

    def _server(self, name: str, entry: Any) -> None:
        if not 0 < len(name) <= MAX_NAME_CHARS:
            message = f"server '{name}': its name must have 1 to {MAX_NAME_CHARS} characters"
            self.refuse(name, message)
        if not isinstance(entry, dict):
            self.refuse(name, f"server '{name}': expected an object")
            return
        for path in _repeated(entry):
            self.refuse(name, f"server '{name}': key '{path[-1]}' appears twice", *path)
        try:
            fields = _Entry.model_validate(entry)
        except ValidationError as error:
            for path in dict.fromkeys(_place(detail) for detail in error.errors(include_url=False)):
                self._misfit(name, path)
            return
        kind = fields.type or ("http" if fields.url and not fields.command else "stdio")
        self._check_fields(name, kind, entry)
        if fields.allowed_tools is not None:
            self.allowed[name] = tuple(fields.allowed_tools)
        self.servers[name] = McpServer(
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
        for field in foreign:
            if field in entry:
                message = f"server '{name}': a server of type {kind} has no '{field}'"
                self.refuse(name, message, field)
        if entry.get(required) is None:
            self.refuse(name, f"server '{name}': a server of type {kind} needs '{required}'")

    def _misfit(self, name: str, path: KeyPath) -> None:
        where = ".".join(str(step) for step in path)
        expected = _EXPECTED.get(str(path[0]))
        if expected is None:
            message = f"server '{name}': unknown field '{where}'"
            self.refuse(name, message, *path, hint=near(where, _EXPECTED))
        else:
            self.refuse(name, f"server '{name}': {where}: expected {expected}", *path)

    def _report(self, message: str, *path: str | int) -> None:
        self.findings.append(self._finding(message, *path))

    def _finding(self, message: str, *path: str | int, hint: str | None = None) -> Finding:
        if self._places is not None:
            return self._places.finding(_CODE, message, *path, hint=hint)
        return Finding(_CODE, printable(message), hint=hint, file=str(self._file))


_EXPECTED = {
    "type": "'stdio', 'http' or 'sse'",
    "command": "the name of a program",
    "args": "a list of texts",
    "env": "an object of texts, integers or booleans",
    "cwd": "the path of a directory",
    "url": "an address that begins with http:// or https://",
    "headers": "an object of texts",
    "oauth": "anything",
    "expose": "'meta' or 'direct'",
    "disabled": "true or false",
    "allowedTools": (
        f"a list of at most {MAX_PATTERNS} patterns of up to {MAX_PATTERN_CHARS} characters"
    ),
}


def _place(detail: ErrorDetails) -> KeyPath:
    """Return the place within a server's entry: a field, and possibly a key in it."""
    return detail["loc"][:2]


def _repeated(value: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the places of keys that an object, or one inside it, has twice."""
    if isinstance(value, _Object):
        yield from ((*path, key) for key in value.twice)
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    for step, part in parts:
        if isinstance(part, dict | list):
            yield from _repeated(part, (*path, step))


def _as_text(value: str | bool | int) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)
