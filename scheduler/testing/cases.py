"""The cases in an agent's `tests/*.yaml`: the input of a run, and what is expected of it.

A file is one case, or several under `cases`. All mistakes in it are reported at once, with their
lines, as for a graph.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from sleipnir.graphs import field_types
from sleipnir.graphs.document.document import Document, KeyPath, read_document, wrong_value
from sleipnir.graphs.document.finding import Finding, in_order
from sleipnir.graphs.document.shape import shape
from sleipnir.graphs.schema import JsonObject, Section
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.recording import RecordedCall
from sleipnir.scheduler.testing.replies import (
    ReplyFields,
    ToolCallFields,
    scripted_call,
)

S = TypeVar("S", bound=Section)

# A step of one node is the node's id, a step of several a list of ids.
Step = str | list[str]

_DIRECTORY = "tests"


@dataclass(frozen=True, kw_only=True)
class OutputFields(Section):
    """What the run's output must be like."""

    NAMES_IN_FILES: ClassVar[Mapping[str, str]] = {"json_schema": "schema"}
    contains: str | list[str] | None = None
    """Texts that it contains."""
    matches: str | None = None
    """A regular expression that matches somewhere in it."""
    json_schema: JsonObject | None = None
    """A JSON Schema that it conforms to, once parsed."""


@dataclass(frozen=True, kw_only=True)
class CostFields(Section):
    """What the model calls may cost, or did cost when they were recorded."""

    max_usd: field_types.NotNegative
    """US dollars."""


@dataclass(frozen=True, kw_only=True)
class Expected(Section):
    """What must be true of the run. What is not named may be anything."""

    status: Literal["succeeded", "failed", "timed_out", "waiting"] | None = None
    """Default: failed if `error` is given, else succeeded."""
    error: str | None = None
    """The code of the failure, as in R013."""
    route: list[Step] | None = None
    """The nodes of every step, in order."""
    visits: dict[str, field_types.NotNegativeInt] | None = None
    """How often these nodes were visited; 0: never."""
    state: JsonObject | None = None
    """Part of the final state; mappings in it may have more keys."""
    output: str | OutputFields | None = None
    """The run's output: exactly this text, or conditions on it."""
    cost: CostFields | None = None
    """What the model calls may cost, or did cost when they were recorded."""


@dataclass(frozen=True, kw_only=True)
class CaseFields(Section):
    """What a run is given."""

    name: str
    """What the case tests."""
    prompt: str = ""
    """The prompt."""
    vars: dict[str, str | int | float | bool] = field(default_factory=dict)
    """Values of the agent's variables."""
    state: JsonObject = field(default_factory=dict)
    """Seeds of the state."""
    answers: dict[str, str | list[str]] = field(default_factory=dict)
    """Answers to questions by node, one per visit."""
    workdir: str | None = None
    """Working directory, relative to the agent's. Default: an empty directory."""
    timeout: field_types.Seconds = 60.0
    """Seconds the run may take."""
    replay: str | None = None
    """The recording to take replies from; relative to the agent's directory."""
    replies: Any = None
    """What models reply: in order, or by node."""
    expect: Any = None
    """What must be true of the run."""


@dataclass(frozen=True, kw_only=True)
class _Several(Section):
    cases: list[Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One case as described in its file."""

    file: Path
    line: int
    given: CaseFields
    expected: Expected
    replies: tuple[RecordedCall, ...]  # those written out in the case

    @property
    def id(self) -> str:
        return f"{self.file.stem}::{self.given.name}"


def read_all_cases(agent: Path) -> tuple[list[Case], tuple[Finding, ...]]:
    """Return the cases of an agent's directory, and the findings in their files."""
    cases: list[Case] = []
    findings: list[Finding] = []
    for file in sorted((agent / _DIRECTORY).glob("*.yaml")):
        document, found = read_document(file)
        findings += found
        if document is not None:
            reading = _CaseReader(document)
            cases += reading.cases()
            findings += reading.findings
    return cases, in_order(findings)


class _CaseReader:
    """One pass over a file of cases."""

    def __init__(self, document: Document) -> None:
        self.findings: list[Finding] = []
        self._document = document
        self._calls = 0

    def cases(self) -> list[Case]:
        if "cases" not in self._document.data:
            found = [self._case(())]
        else:
            several = self._shape(_Several, ())
            count = len(several.cases) if several else 0
            found = [self._case(("cases", index)) for index in range(count)]
        cases = [case for case in found if case is not None]
        names = [case.given.name for case in cases]
        for number, case in enumerate(cases):
            if case.given.name in names[:number]:
                message = f"a second case is named '{case.given.name}'"
                self.findings.append(Finding("E008", message, file=str(case.file), line=case.line))
        return cases

    def _case(self, path: KeyPath) -> Case | None:
        expected = self._optional(Expected, (*path, "expect"), self._expected_parts)
        replies = self._replies((*path, "replies"))
        given = self._shape(CaseFields, path, replies=None, expect=None)
        if given is None:
            return None
        if given.replay is not None and self._at(*path, "replies") is not None:
            self._report("give a case 'replay' or 'replies', not both", *path, "replies")
        line, _ = self._document.position(*path)
        return Case(self._document.file, line, given, expected or Expected(), tuple(replies))

    def _expected_parts(self, path: KeyPath) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        for name, section in (("output", OutputFields), ("cost", CostFields)):
            if isinstance(self._at(*path, name), dict):
                parts[name] = self._shape(section, (*path, name))
        if isinstance(output := parts.get("output"), OutputFields):
            self._check_pattern(output, (*path, "output", "matches"))
        return parts

    def _check_pattern(self, output: OutputFields, path: KeyPath) -> None:
        try:
            re.compile(output.matches or "")
        except re.error as error:
            self._report(f"this is not a valid regular expression: {error}", *path)

    # ---- replies

    def _replies(self, path: KeyPath) -> list[RecordedCall]:
        match self._at(*path):
            case None:
                return []
            case list() as replies:
                return self._listed(path, None, len(replies))
            case dict() as by_node:
                return [call for node in by_node for call in self._of_node((*path, node), node)]
            case _:
                self._wrong_value("a list, or a mapping from nodes", *path)
                return []

    def _of_node(self, path: KeyPath, node: str) -> list[RecordedCall]:
        replies = self._at(*path)
        if isinstance(replies, list):
            return self._listed(path, node, len(replies))
        return self._reply(path, node)

    def _listed(self, path: KeyPath, node: str | None, count: int) -> list[RecordedCall]:
        return [call for index in range(count) for call in self._reply((*path, index), node)]

    def _reply(self, path: KeyPath, node: str | None) -> list[RecordedCall]:
        """Return a list with the reply, empty if it is invalid."""
        value = self._at(*path)
        if isinstance(value, str):
            return [scripted_call(ReplyFields(text=value), (), node, 0)]
        if not isinstance(value, dict):
            self._wrong_value("a text, or a mapping with text, json, calls or error", *path)
            return []
        calls = [
            call
            for index in range(self._length(*path, "calls"))
            if (call := self._shape(ToolCallFields, (*path, "calls", index))) is not None
        ]
        fields = self._shape(ReplyFields, path, **({"calls": []} if calls else {}))
        if fields is None:
            return []
        self._calls += len(calls)
        return [scripted_call(fields, calls, node, self._calls - len(calls))]

    # ---- the document

    def _at(self, *path: str | int) -> Any:
        part = self._document.at(*path)
        return None if part is None else part.value

    def _length(self, *path: str | int) -> int:
        value = self._at(*path)
        return len(value) if isinstance(value, list) else 0

    def _optional(self, section: type[S], path: KeyPath, parts: Any) -> S | None:
        return None if self._at(*path) is None else self._shape(section, path, **parts(path))

    def _shape(self, section: type[S], path: KeyPath, **ready: Any) -> S | None:
        if not isinstance(self._at(*path), dict):
            self._wrong_value("a mapping", *path)
            return None
        shaped, findings = shape(section, self._document, path, ready=ready)
        self.findings += findings
        return shaped

    def _wrong_value(self, expected: str, *path: str | int) -> None:
        part = self._document.at(*path)
        assert part is not None, "callers look before they ask"
        self._report(wrong_value(path, self._document.file.stem, expected, part), *path)

    def _report(self, message: str, *path: str | int) -> None:
        self.findings.append(self._document.finding("E008", message, *path))
