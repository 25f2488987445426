"""The files in an agent's `evals/`: rows, checks, and what a version must not lose.

All mistakes in a file are reported at once, with their lines, as for a graph.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import click

from sleipnir.graphs import field_types
from sleipnir.graphs.document.document import Document, KeyPath, read_document, wrong_value
from sleipnir.graphs.document.finding import Finding, in_order, listing
from sleipnir.graphs.document.shape import shape
from sleipnir.graphs.expressions.errors import BadExpression
from sleipnir.graphs.expressions.parser import parse
from sleipnir.graphs.files import read_text, reason
from sleipnir.graphs.schema import Section
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import SubmissionRefused

S = TypeVar("S", bound=Section)

DIRECTORY = "evals"
_ACCEPTED = ".baseline"
_ACCEPTED_LIMIT_BYTES = 1024
_VERSION = re.compile(r"[0-9a-f]{4,64}")
COST = "cost_usd"
# Names that the expressions of checks may read.
NAMES = (
    *("row", "output", "value", "state", "status"),
    *("error", "failures", "usage", "elapsed_s"),
)
_KINDS = ("is", "score", "judge")


@dataclass(frozen=True, kw_only=True)
class EvaluationFields(Section):
    """A whole file."""

    rows: str
    """CSV or JSON lines, relative to this file."""
    id: str = "id"
    """The column with each row's id. Default: `id`, or else what a row contains."""
    checks: list[Any]
    """What is checked of each row's run."""
    cluster: str | None = None
    """The column by which rows belong together."""
    repeat: field_types.PositiveInt = 1
    """Runs of each row, of which the mean counts."""
    gate: dict[str, Any] = field(default_factory=dict)
    """Check, or `cost_usd`, to what must not be lost."""


@dataclass(frozen=True, kw_only=True)
class CheckFields(Section):
    """One check: `is`, `score` or `judge`."""

    NAMES_IN_FILES: ClassVar[Mapping[str, str]] = {"passes": "is"}
    name: str
    """What it is called in reports."""
    passes: str | None = None
    """An expression that is true of a row that passes."""
    score: str | None = None
    """An expression with a number from 0 to 1."""
    judge: str | None = None
    """An agent whose result is true or false, or an object with a `score`."""


@dataclass(frozen=True, kw_only=True)
class GateFields(Section):
    """What a check must keep."""

    min: field_types.Share | None = None
    """The least mean."""
    drop: field_types.Share | None = None
    """The most that the mean may lose against the baseline."""
    rise: field_types.NotNegative | None = None
    """Of `cost_usd`: by how much the mean may grow, relative to the baseline's."""
    strict: bool = False
    """true: what too few rows leave open counts as lost."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An evaluation as described in its file."""

    file: Path
    given: EvaluationFields
    checks: tuple[CheckFields, ...]
    gates: Mapping[str, GateFields]

    @property
    def name(self) -> str:
        """The file's name without its extension."""
        return self.file.stem

    @property
    def rows(self) -> Path:
        """The file with the rows."""
        return self.file.parent / self.given.rows

    @property
    def accepted(self) -> Path:
        """The file that names the version to compare with."""
        return self.file.parent / _ACCEPTED

    @property
    def reads_state(self) -> bool:
        """Whether a check reads the final state of runs."""
        texts = (text for check in self.checks for text in (check.passes, check.score) if text)
        return any("state" in parse(text).names for text in texts)

    def accepted_version(self) -> str | None:
        """Return the version that was accepted as the baseline; None if none was.

        Raises:
            SubmissionRefused: the file does not name one.
        """
        if not self.accepted.is_file():
            return None
        try:
            version = read_text(self.accepted, _ACCEPTED_LIMIT_BYTES).strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SubmissionRefused(f"cannot read {self.accepted}: {reason(error)}") from error
        if not _VERSION.fullmatch(version):
            agent = self.file.parent.parent.name
            raise SubmissionRefused(
                f"{self.accepted} does not name a version; remove it, or write it with "
                f"`sleipnir eval {agent} --accept`"
            )
        return version


def evaluation_files(directory: Path) -> dict[str, Path]:
    """Return the files of an agent's evaluations by their names."""
    return {file.stem: file for file in sorted((directory / DIRECTORY).glob("*.yaml"))}


def find_evaluation(directory: Path, name: str | None) -> Path:
    """Return the file of an agent's evaluation, by its name or path; the only one for None.

    Raises:
        click.UsageError: there is none, or several.
    """
    files = list(evaluation_files(directory).values())
    if name is not None:
        found = [file for file in files if name in (file.stem, file.name)] or [Path(name)]
        if found[0].is_file():
            return found[0]
        known = listing([file.stem for file in files])
        has = f"it has {known}" if files else "it has none"
        raise click.UsageError(f"no evaluation '{name}' of agent '{directory.name}'; {has}")
    if not files:
        raise click.UsageError(
            f"agent '{directory.name}' has no evaluation; make one of a file with a column "
            f"`expected`: sleipnir eval {directory.name} --init FILE"
        )
    if len(files) > 1:
        raise click.UsageError(f"name one of the evaluations: {listing([f.stem for f in files])}")
    return files[0]


def read_evaluation(file: Path) -> tuple[Evaluation | None, tuple[Finding, ...]]:
    """Return an evaluation, None if it is unusable, and the findings in its file."""
    document, found = read_document(file)
    if document is None:
        return None, in_order(found)
    reading = _Reader(document)
    evaluation = reading.evaluation()
    findings = in_order((*found, *reading.findings))
    return None if findings else evaluation, findings


class _Reader:
    """One pass over a file."""

    def __init__(self, document: Document) -> None:
        self.findings: list[Finding] = []
        self._document = document

    def evaluation(self) -> Evaluation | None:
        given = self._shape(EvaluationFields, ())
        if given is None:
            return None
        checks = tuple(self._checks(len(given.checks)))
        gates = dict(self._gates(given.gate, {check.name for check in checks}))
        return Evaluation(self._document.file, given, checks, gates)

    def _checks(self, count: int) -> Iterator[CheckFields]:
        if not count:
            self._report("E008", "'checks' is empty", "checks")
        names: set[str] = set()
        for index in range(count):
            path = ("checks", index)
            check = self._shape(CheckFields, path)
            if check is None:
                continue
            if check.name in names or check.name == COST:
                self._report("E008", f"a second check is named '{check.name}'", *path, "name")
            names.add(check.name)
            kinds = [check.passes, check.score, check.judge]
            if sum(kind is not None for kind in kinds) != 1:
                message = f"check '{check.name}' needs one of {', '.join(_KINDS)}"
                self._report("E008", message, *path)
            for kind, text in (("is", check.passes), ("score", check.score)):
                if text is not None:
                    self._parse(text, *path, kind)
            yield check

    def _parse(self, text: str, *path: str | int) -> None:
        try:
            unknown = sorted(parse(text).names - set(NAMES))
        except BadExpression as error:
            self._report("E219", str(error), *path)
            return
        if unknown:
            known = listing(NAMES)
            self._report("E008", f"checks know no '{unknown[0]}', but {known}", *path)

    def _gates(
        self, given: Mapping[str, Any], checks: set[str]
    ) -> Iterator[tuple[str, GateFields]]:
        for name in given:
            gate = self._shape(GateFields, ("gate", name))
            if gate is None:
                continue
            if name not in checks | {COST}:
                self._report("E008", f"no check is named '{name}'", "gate", name)
            elif (gate.rise is not None) != (name == COST) or (
                name == COST and (gate.min, gate.drop) != (None, None)
            ):
                message = f"`{COST}` takes `rise`; checks take `min` and `drop`"
                self._report("E008", message, "gate", name)
            yield name, gate

    def _shape(self, section: type[S], path: KeyPath) -> S | None:
        part = self._document.at(*path)
        if part is None or not isinstance(part.value, dict):
            if part is not None:
                message = wrong_value(path, self._document.file.stem, "a mapping", part)
                self._report("E008", message, *path)
            return None
        shaped, findings = shape(section, self._document, path, ready={})
        self.findings += findings
        return shaped

    def _report(self, code: str, message: str, *path: str | int) -> None:
        self.findings.append(self._document.finding(code, message, *path))
