"""Answers to many questions: one for all of a batch's node, or one for each from a CSV file."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sleipnir.graphs.files import UnusableFile, read_text, reason
from sleipnir.records import dataclass
from sleipnir.scheduler.cli.asking.answering import give
from sleipnir.scheduler.cli.many.agreement import agree
from sleipnir.scheduler.errors import AnswerInvalid, AnswerRefused
from sleipnir.scheduler.runs.answers import accepted
from sleipnir.scheduler.runs.model import Question
from sleipnir.scheduler.views.text.terminal_output import printable

if TYPE_CHECKING:
    from sleipnir.scheduler.cli.options import Options
    from sleipnir.scheduler.client import Client

# The first that a file has names the questions.
_COLUMNS = ("question_id", "run_id", "item")
_LARGEST_FILE_BYTES = 64 * 1024 * 1024
_PAGE = 1_000
_MOST_NAMED = 10
Given = tuple[Question, str]


@dataclass(frozen=True, slots=True)
class Found:
    """Answers to give, and why others are not."""

    given: Sequence[Given]
    problems: Sequence[str] = ()


def same_for_all(client: Client, batch: str, node: str, text: str) -> Found:
    """Return one answer for the open questions of a node in a batch."""
    questions = [each for each in _open(client, batch) if each.is_asked_by(node)]
    return _valid(client, [(f"run {each.run_id}", each, text) for each in questions])


def from_file(client: Client, file: Path, batch: str | None, node: str | None) -> Found:
    """Return the answers of a CSV file's lines, each of which must name one open question.

    Raises:
        click.UsageError: the file cannot be read, or its columns name no questions.
    """
    rows = _rows(file)
    if batch is None and rows and not rows[0][1].keys() & set(_COLUMNS[:2]):
        raise click.UsageError(
            f"{file}: a column question_id or run_id is needed, or item together with --batch"
        )
    questions = _open(client, batch)
    items = client.queries.origins(sorted({each.root_run_id for each in questions}))
    named: dict[tuple[str, str | None], list[Question]] = defaultdict(list)
    for each in questions:
        item = items[each.root_run_id][1]
        runs = {("run_id", each.run_id), ("run_id", each.root_run_id)}
        for name in {("question_id", each.question_id), ("item", item)} | runs:
            named[name].append(each)
    taken: list[tuple[str, Question, str]] = []
    problems, seen = [], set()
    for line, row in rows:
        column = next(name for name in _COLUMNS if name in row)
        place = row.get("node") or node
        matching = [
            each
            for each in named.get((column, row[column]), ())
            if place is None or each.is_asked_by(place)
        ]
        where = f"{file}:{line}"
        if len(matching) != 1:
            problems.append(f"{where}: {_miss(len(matching))}")
        elif matching[0].question_id in seen:
            problems.append(f"{where}: an earlier line answers that question")
        else:
            seen.add(matching[0].question_id)
            taken.append((where, matching[0], row["answer"]))
    valid = _valid(client, taken)
    return Found(valid.given, [*problems, *valid.problems])


def send(client: Client, options: Options, found: Found, *, is_sure: bool) -> int:
    """Say what will happen, ask unless the person is sure, and answer; return how many were.

    Raises:
        click.UsageError: there is nobody to ask.
    """
    for problem in found.problems[:_MOST_NAMED]:
        options.say(printable(problem))
    if len(found.problems) > _MOST_NAMED:
        options.say(f"and {len(found.problems) - _MOST_NAMED:,} more like these")
    for line in _summary(found.given):
        options.say(printable(line))
    if not found.given or not (is_sure or agree("answer them?", "add --yes to answer them")):
        return 0
    answered = 0
    for question, text in found.given:
        try:
            give(client, question, text)
            answered += 1
        except AnswerRefused as refusal:
            options.say(str(refusal))
    options.say(f"{answered:,} of {len(found.given):,} answered")
    return answered


def _open(client: Client, batch: str | None) -> list[Question]:
    found: list[Question] = []
    cursor = None
    while True:
        page = client.queries.list_questions(_PAGE, cursor, batch=batch)
        found += page.entries
        cursor = page.next
        if cursor is None:
            return found


def _rows(file: Path) -> Sequence[tuple[int, Mapping[str, str]]]:
    """Return the lines of a CSV file by their numbers."""
    try:
        reader = csv.DictReader(
            read_text(file, _LARGEST_FILE_BYTES, encoding="utf-8-sig").split("\n")
        )
        rows = [(reader.line_num, row) for row in reader]
    except (OSError, UnusableFile, UnicodeError, csv.Error) as error:
        raise click.UsageError(f"{file}: {reason(error)}") from error
    columns = reader.fieldnames or ()
    if "answer" not in columns or not set(columns) & set(_COLUMNS):
        raise click.UsageError(
            f"{file}: its columns must be `answer` and one of question_id, run_id and item; "
            f"it has: {printable(', '.join(columns)) or 'none'}"
        )
    for line, row in rows:
        if None in row or None in row.values():
            raise click.UsageError(f"{file}:{line}: the line has not as many cells as the header")
    return rows


def _miss(count: int) -> str:
    if not count:
        return "no such question is open"
    return f"{count} open questions match; add a column node, or --node"


def _valid(client: Client, taken: Sequence[tuple[str, Question, str]]) -> Found:
    limit_bytes = client.store.settings.value_limit_bytes
    given, problems = [], []
    for where, question, text in taken:
        if question.is_guard:
            problems.append(f"{where}: consent to a guarded call is given to one call at a time")
            continue
        try:
            given.append((question, accepted(question, text, limit_bytes)))
        except AnswerInvalid as error:
            problems.append(f"{where}: {error}")
    return Found(given, problems)


def _summary(given: Sequence[Given]) -> Iterator[str]:
    """Yield what will happen, a line for each answer to each node."""
    counts: Counter[tuple[str, str, str, tuple[str, ...]]] = Counter(
        (each.agent, each.node, text, each.options) for each, text in given
    )
    for (agent, node, text, options), count in counts.most_common(_MOST_NAMED):
        others = f", none of its options ({', '.join(options)})"
        rest = others if options and text not in options else ""
        yield f"{count:,} of {agent}: {node} get '{text}'{rest}"
    if len(counts) > _MOST_NAMED:
        yield f"and {len(given) - sum(n for _, n in counts.most_common(_MOST_NAMED)):,} others"
