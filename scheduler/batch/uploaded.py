"""Batches from files that people send: what is in a file, and submitting a run for each line."""

from __future__ import annotations

import hashlib
import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TextIO

from sleipnir.graphs.document.finding import printable
from sleipnir.graphs.state import PROMPT_KEY
from sleipnir.records import dataclass
from sleipnir.scheduler.batch.columns import known_keys
from sleipnir.scheduler.batch.csv_lines import CsvRules, column_names
from sleipnir.scheduler.batch.drive import Batch
from sleipnir.scheduler.batch.identity import name_of_upload
from sleipnir.scheduler.batch.intake import Intake, load_input
from sleipnir.scheduler.batch.ledger import Ledger
from sleipnir.scheduler.batch.lines import BoundedLines, Format, format_of, input_of
from sleipnir.scheduler.batch.options import BatchOptions
from sleipnir.scheduler.batch.reading import decoded_stream
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.conversation.sessions import TEMPORARY
from sleipnir.scheduler.runs.labels import require_name
from sleipnir.scheduler.runs.submit import Request

if TYPE_CHECKING:
    from sleipnir.graphs.schema import Graph

_SHOWN = 3
# Lines that are read to find out which keys there are.
_READ = 100
_DEFAULTS = Request(session=TEMPORARY)


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file, and how its columns are meant."""

    name: str
    content: bytes
    columns: Mapping[str, str] = field(default_factory=dict)  # CSV: another name; "": left out
    skip_bad: bool = False

    @property
    def format(self) -> Format:
        """The format that its name tells.

        Raises:
            SubmissionRefused: it tells none.
        """
        found = format_of(PurePath(self.name))
        if found is None:
            raise SubmissionRefused(
                f"cannot tell the format of '{printable(self.name)}' from its name; it must end in "
                ".csv, .jsonl or .txt"
            )
        return found

    def text(self) -> TextIO:
        """Return its text, from the beginning."""
        raw: Any = io.BytesIO(self.content)
        return decoded_stream(io.BufferedReader(raw))

    def batch_of(self, agent: str) -> str:
        """Return the name of the agent's batch over this content."""
        return name_of_upload(agent, self.name, hashlib.sha256(self.content).hexdigest())


@dataclass(frozen=True, slots=True)
class Column:
    """Where the values of a column, or of a key of JSON lines, go."""

    name: str
    to: str  # `prompt`, `id`, or the key of the state
    is_read: bool  # False: nothing in the agent uses it
    example: Any


@dataclass(frozen=True, slots=True)
class LookedAt:
    """What is in a file, before any of it runs."""

    lines: int
    bad: int
    problems: Sequence[str]  # of the first bad lines
    warnings: Sequence[str]
    columns: Sequence[Column]
    first: Sequence[Mapping[str, Any]]  # requests of the first lines, as in JSON lines


def look_at(client: Client, agent: PreparedAgent, file: UploadedFile) -> LookedAt:
    """Return what a batch over a file would run.

    Raises:
        AgentNotFound, SubmissionRefused: the agent or the whole file cannot be used.
    """
    known = _known(client, agent)
    with Ledger() as ledger:
        rules = CsvRules(known=known, may_be_unread=True, renamed=file.columns)
        intake = _load(client, agent, file, ledger, rules)
        items, count = ledger.following(0)[:_READ], len(ledger)
    requests = [{"id": item.item, **input_of(item.content)} for item in items]
    return LookedAt(
        count,
        intake.bad_count,
        [str(each) for each in intake.bad],
        list(intake.warnings(agent.name)),
        list(_columns(file, requests, known)),
        requests[:_SHOWN],
    )


def submit_file(
    client: Client,
    agent: PreparedAgent,
    file: UploadedFile,
    name: str,
    budget_usd: float | None,
    request: Request,
) -> int:
    """Submit a run for each line that has none yet; return the number of lines.

    Args:
        request: what its runs have in common, such as who submits and a webhook.

    Raises:
        AgentNotFound, SubmissionRefused: nothing was submitted; the message says why.
        NotKept: some runs may be lost.
    """
    require_name("batch", name)
    with Ledger() as ledger:
        rules = CsvRules(known=_known(client, agent), renamed=file.columns)
        intake = _load(client, agent, file, ledger, rules)
        if intake.bad_count and not file.skip_bad:
            lines = "1 line" if intake.bad_count == 1 else f"{intake.bad_count:,} lines"
            raise SubmissionRefused(
                f"{lines} of {printable(file.name)} cannot be used, so nothing was submitted; "
                f"correct or leave them out:\n{intake.describe_bad()}"
            )
        if not len(ledger):
            raise SubmissionRefused(f"'{printable(file.name)}' has no lines to run")
        options = BatchOptions(
            name,
            max_in_flight=sys.maxsize,
            budget_usd=budget_usd,
            defaults=replace(request, session=TEMPORARY),
        )
        Batch(client, agent, ledger, options).submit_all()
        return len(ledger)


def _known(client: Client, agent: PreparedAgent) -> frozenset[str]:
    return known_keys(agent.graph, client.search.find(agent.name))


def _load(
    client: Client,
    agent: PreparedAgent,
    file: UploadedFile,
    ledger: Ledger,
    rules: CsvRules,
) -> Intake:
    with file.text() as stream:
        return load_input(
            ledger,
            stream,
            file.format,
            partial(client.check, agent),
            _DEFAULTS,
            client.store.settings.batch_lines_limit,
            rules,
        )


def _columns(
    file: UploadedFile, requests: Sequence[Mapping[str, Any]], known: frozenset[str]
) -> Iterator[Column]:
    """Yield the columns of a table, or the keys that lines have; each with its first value."""
    values: dict[str, Any] = {}
    for given in requests:
        found = {"id": given["id"], "prompt": given["prompt"], **given["state"], **given["vars"]}
        for key, value in found.items():
            if value not in (None, ""):
                values.setdefault(key, value)
    names = [name for name in values if name != "id"]  # lines without one get one
    if file.format == "csv":
        with file.text() as stream:
            names = column_names(BoundedLines(stream, _READ))
    for name in names:
        to = file.columns.get(name, name)
        is_prompt = to == "prompt" and PROMPT_KEY in known
        yield Column(name, to, is_prompt or to == "id" or to in known, values.get(to, ""))


def guessed_columns(graph: Graph, file: UploadedFile) -> dict[str, str]:
    """Return which columns of a table are meant by names that differ in case only."""
    if file.format != "csv":
        return {}
    with file.text() as stream:
        names = column_names(BoundedLines(stream, _READ))
    meant = {target.casefold(): target for target in targets_of(graph)}
    guesses = {name: meant[name.casefold()] for name in names if name.casefold() in meant}
    return {name: to for name, to in guesses.items() if to not in names}


def targets_of(graph: Graph) -> list[str]:
    """Return what a column may be meant for: the prompt, the line's id, keys that are seeded."""
    variables = (each.name for each in graph.variables if not each.secret)
    keys = (key for key in graph.initial_state if key != PROMPT_KEY)
    return list(dict.fromkeys(["prompt", "id", *keys, *variables]))
