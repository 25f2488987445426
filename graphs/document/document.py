"""A YAML file as plain data with the position of every part.

Only the core schema of YAML 1.2 is read, so `yes`, `on` and `2024-01-01` are strings. Tags, merge
keys and duplicate keys are refused. Input is not trusted: its size, depth and expanded aliases are
limited, and only plain data is ever built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import yaml

from sleipnir.graphs.document.finding import Finding, printable
from sleipnir.graphs.document.yaml_hints import QUOTE, hint_for
from sleipnir.graphs.files import UnusableFile, read_bytes
from sleipnir.records import dataclass

MAX_FILE_BYTES = 1024 * 1024
# Deeper than any schema people write, and shallow enough for every recursive reader of the data.
MAX_DEPTH = 50
# Limit on nodes that aliases add to those written out.
MAX_ALIASED_NODES = 10_000
# Python refuses to print integers of more than 4,300 digits; nobody writes one on purpose.
MAX_INTEGER_CHARS = 1_000

KeyPath: TypeAlias = tuple[str | int, ...]

# Both yield the same events; the one written in C is ten times as fast.
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_TAG_OF_YAML = "tag:yaml.org,2002:"

# Characters that the parser would refuse without giving their position.
_NOT_TEXT = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_REFERENCE = re.compile(r"\{\{[^{}]*\}\}")
_NULL = re.compile(r"null|Null|NULL|~|")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


@dataclass(frozen=True, slots=True)
class Located:
    """A value and its position; for a mapping's entry, the position of its key."""

    value: Any
    line: int
    column: int
    source: str | None = None  # the text as written, for a scalar without quotes
    parts: Mapping[str | int, Located] = field(default_factory=dict)
    size: int = 1  # nodes, with aliases expanded
    height: int = 0  # levels of nesting inside
    value_at: tuple[int, int] | None = None  # of an entry's value: its own line and column
    file: Path | None = None  # the file whose text the value is, if not the document's

    @property
    def refused(self) -> bool:
        """True for a number or a tag that was reported as invalid and replaced by None."""
        return self.value is None and not _NULL.fullmatch(self.source or "")

    def __str__(self) -> str:
        """Describe the value, for `expected …, got …`."""
        match self.value:
            case None:
                return _shorten(self.source) if self.source else "nothing"
            case str():
                return f'the text "{_shorten(self.value)}"'
            case list():
                return "a list"
            case dict():
                return "a mapping"
            case _:
                return _shorten(self.source or repr(self.value))


@dataclass(frozen=True, slots=True)
class Document:
    """One file: its data, and the position of every part."""

    file: Path
    root: Located

    @property
    def data(self) -> dict[str, Any]:
        """The file's mapping as plain JSON-compatible data; must not be changed."""
        value: dict[str, Any] = self.root.value
        return value

    def at(self, *path: str | int) -> Located | None:
        """Return the part at exactly this path; None if it does not exist."""
        part: Located | None = self.root
        for step in path:
            part = part.parts.get(step) if part else None
        return part

    def position(self, *path: str | int) -> tuple[int, int]:
        """Return line and column of the key or list item, or of the part that would contain it."""
        part = self.root
        for step in path:
            if step not in part.parts:
                break
            part = part.parts[step]
        return part.line, part.column

    def finding(
        self, code: str, message: str, *path: str | int, hint: str | None = None, offset: int = 0
    ) -> Finding:
        """Return a finding about the part at `path`, or about the place where it is missing.

        `offset` leads to a character of the part's text, if that is in a file of its own.
        """
        part = self.at(*path)
        if part is None or part.file is None:
            return _finding(self.file, code, message, path, self.position(*path), hint or "")
        before = part.value[:offset]
        place = (before.count("\n") + 1, offset - before.rfind("\n"))
        return _finding(part.file, code, message, path, place, hint or "")

    def with_part(self, part: Located, *path: str | int) -> Document:
        """Return the document with another part at `path`, which has to exist."""
        return replace(self, root=_with_part(self.root, part, path))


def _with_part(whole: Located, part: Located, path: KeyPath) -> Located:
    if not path:
        return part
    step = path[0]
    below = _with_part(whole.parts[step], part, path[1:])
    value = whole.value.copy()  # a mapping or a list
    value[step] = below.value
    return replace(whole, value=value, parts={**whole.parts, step: below})


def node_of(path: KeyPath) -> str | None:
    """Return the id of the node that contains a path, if one does."""
    return str(path[1]) if len(path) > 1 and path[0] == "nodes" else None


def _finding(
    file: Path, code: str, message: str, path: KeyPath, place: tuple[int, int], hint: str = ""
) -> Finding:
    node = node_of(path)
    return Finding(
        code,
        printable(message),
        node if node is None else printable(node),
        printable(hint) or None,
        str(file),
        *place,
    )


def name_place(path: KeyPath, root: str) -> tuple[str, str]:
    """Return the section of a path, and the field within it, as messages name them.

    `("nodes", "plan", "next", 0)` becomes `("node 'plan'", "next[0]")`; what belongs to no section
    is in `root`: `graph` or `config`.
    """
    match path:
        case ("nodes", node, _, *_):
            where, rest = f"node '{node}'", path[2:]
        case ("settings", _, *_):
            where, rest = "settings", path[1:]
        case ("variables", int(index), _, *_):
            where, rest = f"variables[{index}]", path[2:]
        case _:
            where, rest = root, path
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in rest)
    return where, "".join(steps).removeprefix(".")


def wrong_value(path: KeyPath, root: str, expected: str, got: Located) -> str:
    """Return the message of E008."""
    where, name = name_place(path, root)
    subject = f"{where}.{name}" if name else where
    return f"{subject}: expected {expected}, got {got}{_quoting(expected, got)}"


def read_document(file: Path) -> tuple[Document | None, list[Finding]]:
    """Read a YAML file; the document is None if it is unusable as a whole."""
    text, findings = read_source(file)
    return (None, findings) if text is None else parse_document(file, text)


def read_source(file: Path) -> tuple[str | None, list[Finding]]:
    """Read a file as text; None, with a finding, if it is none or too large."""
    try:
        return _read_text(file), []
    except _Unreadable as error:
        message = f"cannot read {file.name}: {error}"
        return None, [_finding(file, "E003", message, (), (error.line, 1))]


def parse_document(file: Path, text: str) -> tuple[Document | None, list[Finding]]:
    """Parse the YAML in a file's text; the document is None if it is unusable as a whole."""
    reader = _Reader(file, text)
    try:
        root = reader.root()
    except _GivenUp:
        return None, reader.findings
    return Document(file, root), reader.findings


class _Unreadable(Exception):
    """The file is not text that we accept."""

    def __init__(self, why: str, line: int = 1) -> None:
        self.line = line
        super().__init__(why)


class _GivenUp(Exception):
    """Parsing cannot continue; the last finding says why."""


def _read_text(file: Path) -> str:
    try:
        data = read_bytes(file, MAX_FILE_BYTES)
    except UnusableFile as error:
        raise _Unreadable(str(error)) from error
    except OSError as error:
        raise _Unreadable((error.strerror or str(error)).lower()) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _Unreadable(f"line {line} is not UTF-8", line) from error


class _Reader:
    """Builds data from parser events, and collects findings."""

    def __init__(self, file: Path, text: str) -> None:
        self.findings: list[Finding] = []
        self._file = file
        self._text = text
        self._lines = text.split("\n")
        self._events = self._parse()
        self._anchors: dict[str, Located | None] = {}  # None: still being read
        self._aliased_nodes = 0

    def root(self) -> Located:
        """Return the mapping of the only document."""
        next(self._events)  # start of the stream
        event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            self._give_up("E005", "unsupported YAML: the file is empty", event)
        root = self._node(next(self._events), ())
        next(self._events)  # end of the document
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            self._give_up("E005", "unsupported YAML: more than one document", after)
        if not isinstance(root.value, dict):
            detail = f"expected a mapping at the top, got {root}"
            self._give_up("E005", f"unsupported YAML: {detail}", event)
        return root

    def _parse(self) -> Iterator[Any]:
        if bad := _NOT_TEXT.search(self._text):
            before = self._text[: bad.start()]
            line, column = before.count("\n") + 1, bad.start() - before.rfind("\n")
            detail = f"character U+{ord(bad.group()):04X} is not allowed"
            self._syntax_error(detail, line, column)
        try:
            yield from yaml.parse(self._text, Loader=_PARSER)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            detail = " ".join(part for part in (error.context, error.problem) if part)
            line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            if self._is_tab(line, column):
                detail = "a tab where YAML allows none; indent with spaces"
            begun = error.context_mark.line + 1 if error.context_mark else line
            self._syntax_error(detail, line, column, begun)

    def _is_tab(self, line: int, column: int) -> bool:
        lines = self._lines[line - 1 : line]
        return any(text[column - 1 : column] == "\t" for text in lines)

    def _node(self, event: Any, path: KeyPath) -> Located:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, path)
        if len(path) > MAX_DEPTH:
            self._too_deep(event, path)
        if event.tag is not None:
            tag = event.tag.replace(_TAG_OF_YAML, "!!")
            hint = "a text that begins with ! needs quotes"
            if not event.tag.startswith(_TAG_OF_YAML):
                hint = f"{hint}; {QUOTE}"
            self._report("E005", f"unsupported YAML: the tag {tag}", event, path, hint)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        node = self._untagged(event, path)
        if event.tag is not None and node.value is None:
            node = replace(node, source=event.tag)  # `!failed` is not nothing
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _untagged(self, event: Any, path: KeyPath) -> Located:
        match event:
            case yaml.MappingStartEvent():
                return self._unquoted(event, path) or self._mapping(event, path)
            case yaml.SequenceStartEvent():
                return self._sequence(event, path)
            case _:
                return self._scalar(event, path)

    def _unquoted(self, start: Any, path: KeyPath) -> Located | None:
        """Take `{{x}}` without quotes, a mapping to YAML, for the text that it is meant to be."""
        line, column = _place(start)
        written = "".join(self._lines[line - 1 : line]) if start.flow_style else ""
        found = _REFERENCE.match(written, column - 1)
        if found is None:
            return None
        known = len(self.findings)
        self._mapping(start, path)
        del self.findings[known:]
        where, name = name_place(path, self._file.stem)
        subject = f"{where}.{name}" if name else where
        message = f"{subject}: {found[0]} is a text only in quotes"
        self._report("E008", message, start, path, f'quote it: "{found[0]}"')
        return Located(found[0], line, column)

    def _mapping(self, start: Any, path: KeyPath) -> Located:
        parts: dict[str | int, Located] = {}
        size, height = 1, 0
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key, at_key = self._key(event, path)
            part = self._node(next(self._events), (*path, key or ""))
            size, height = size + part.size, max(height, part.height + 1)
            if key is None:
                continue
            if key in parts:
                self._report("E004", f"key '{_shorten(key)}' appears twice", event, (*path, key))
                continue
            at_value = part.line, part.column
            parts[key] = replace(part, line=at_key.line, column=at_key.column, value_at=at_value)
        value = {key: part.value for key, part in parts.items()}
        return Located(value, *_place(start), parts=parts, size=size, height=height)

    def _key(self, event: Any, path: KeyPath) -> tuple[str | None, Located]:
        """Return the key as text; None if its entry must be left out."""
        key = self._node(event, (*path, ""))
        if key.source == "<<":
            self._unsupported("the merge key <<; write the fields out", event, path)
            return None, key
        if isinstance(key.value, str):
            return key.value, key
        message = wrong_value(path, self._file.stem, "a string as key", key)
        self._report("E008", message, event, path)
        return key.source, key

    def _sequence(self, start: Any, path: KeyPath) -> Located:
        items: list[Located] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, (*path, len(items))))
        return Located(
            [item.value for item in items],
            *_place(start),
            parts=dict(enumerate(items)),
            size=1 + sum(item.size for item in items),
            height=max((item.height + 1 for item in items), default=0),
        )

    def _scalar(self, event: Any, path: KeyPath) -> Located:
        text: str = event.value
        if event.style:  # quoted, or a block scalar
            return Located(text, *_place(event))
        value, problem = _resolve(text)
        node = Located(value, *_place(event), source=text)
        if problem:
            message = wrong_value(path, self._file.stem, problem, node)
            self._report("E008", message, event, path)
        return node

    def _alias(self, event: Any, path: KeyPath) -> Located:
        if event.anchor not in self._anchors:
            self._syntax_error(f"nothing is anchored as &{event.anchor}", *_place(event))
        node = self._anchors[event.anchor]
        if node is None:
            detail = f"the alias *{event.anchor} stands inside its own anchor"
            self._give_up("E005", f"unsupported YAML: {detail}", event, path)
        if len(path) + node.height > MAX_DEPTH:
            self._too_deep(event, path)
        self._aliased_nodes += node.size
        if self._aliased_nodes > MAX_ALIASED_NODES:
            detail = f"aliases expand to more than {MAX_ALIASED_NODES:,} values"
            self._give_up("E005", f"unsupported YAML: {detail}", event, path)
        line, column = _place(event)
        return replace(node, line=line, column=column)

    def _too_deep(self, event: Any, path: KeyPath) -> NoReturn:
        detail = f"nested more than {MAX_DEPTH} levels deep"
        self._give_up("E005", f"unsupported YAML: {detail}", event, path)

    def _unsupported(self, detail: str, event: Any, path: KeyPath) -> None:
        self._report("E005", f"unsupported YAML: {detail}", event, path)

    def _report(
        self, code: str, message: str, event: Any, path: KeyPath = (), hint: str = ""
    ) -> None:
        self.findings.append(_finding(self._file, code, message, path, _place(event), hint))

    def _give_up(self, code: str, message: str, event: Any, path: KeyPath = ()) -> NoReturn:
        self._report(code, message, event, path)
        raise _GivenUp

    def _syntax_error(
        self, detail: str, line: int, column: int, begun: int | None = None
    ) -> NoReturn:
        message = f"cannot read {self._file.name}: {detail}"
        hint = hint_for(detail, self._lines, line, column, begun or line)
        self.findings.append(_finding(self._file, "E003", message, (), (line, column), hint))
        raise _GivenUp


def _resolve(text: str) -> tuple[Any, str | None]:
    """Return a plain scalar's value by the core schema, and what was expected if it is invalid."""
    if _NULL.fullmatch(text):
        return None, None
    if _TRUE.fullmatch(text):
        return True, None
    if _FALSE.fullmatch(text):
        return False, None
    if _INTEGER.fullmatch(text):
        if len(text) > MAX_INTEGER_CHARS:
            return None, f"an integer of at most {MAX_INTEGER_CHARS:,} digits"
        return int(text, 0 if text[:2] in ("0o", "0x") else 10), None
    if _FLOAT.fullmatch(text):
        number = float(text)
        return (number, None) if abs(number) < float("inf") else (None, "a finite number")
    return (None, "a finite number") if _NOT_FINITE.fullmatch(text) else (text, None)


def _place(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _quoting(expected: str, got: Located) -> str:
    unquoted = got.source and not isinstance(got.value, str)
    return " (quote it)" if unquoted and expected.startswith("a string") else ""


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 40 else f"{line[:39]}…"
