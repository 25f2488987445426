"""`sleipnir schedule apply`: schedules as a file has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sleipnir.graphs.document.document import read_document
from sleipnir.graphs.document.finding import printable
from sleipnir.graphs.errors import GraphError
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.client.schedules.wanted import WantedSchedule, wanted_of
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.labels import require_short_name

with lazy_imports():
    from sleipnir.scheduler.cli import run_result
    from sleipnir.scheduler.cli.many import agreement, audit

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client

_FIELD = "schedules"


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be done to one schedule."""

    act: str  # create, edit or delete
    name: str
    fields: Mapping[str, Any]  # of a new one, or those that differ

    def __str__(self) -> str:
        which = ", ".join(sorted(self.fields)) if self.act == "edit" else ""
        return f"{self.act} {self.name}{': ' if which else ''}{which}"


def apply_file(
    client: Client, options: Options, file: Path, *, prune: bool, asks: bool
) -> ExitCode:
    """Make schedules as a file has them; say what changes, and ask.

    Raises:
        click.UsageError: the file is not one of schedules, or nobody can be asked.
        SubmissionRefused: a schedule is not valid; nothing was changed.
    """
    changes = _changes(client, file, prune=prune)
    for change in changes:
        with _naming(file, change.name):
            if change.act != "delete":
                client.schedules.check(change.name, change.fields)
    for change in changes:
        options.say(printable(str(change)))
    if not changes:
        options.say("nothing to change")
    elif asks and not agreement.agree("go on?", "give --yes to make these changes"):
        options.say("nothing was changed")
        return ExitCode.CANCELLED
    for change in changes:
        _carry_out(client, change)
        if options.json:
            run_result.print_json({"act": change.act, "name": change.name})
    return ExitCode.SUCCEEDED


def _wanted(file: Path) -> dict[str, WantedSchedule]:
    document, findings = read_document(file)
    if findings or document is None:
        raise click.UsageError("\n".join(map(str, findings)))
    root = document.data
    if root.keys() != {_FIELD} or not isinstance(root[_FIELD], dict):
        raise click.UsageError(
            f"{file}: expected `{_FIELD}:` with a schedule by each name, and nothing else"
        )
    found = {}
    for name, fields in root[_FIELD].items():
        with _naming(file, str(name)):
            require_short_name("a schedule", str(name))
            found[str(name)] = WantedSchedule.of(fields if isinstance(fields, dict) else {})
    return found


def _changes(client: Client, file: Path, *, prune: bool) -> list[Change]:
    wanted = _wanted(file)
    known = {schedule.name: schedule for schedule in client.schedules.list()}
    changes = []
    for name, form in wanted.items():
        fields = form.model_dump()
        if name not in known:
            changes.append(Change("create", name, fields))
            continue
        before = wanted_of(known[name])
        with _naming(file, name):
            agent = client.prepare(form.agent)
        before["agent"] = form.agent if agent.name == known[name].agent else known[name].agent
        differing = {key: value for key, value in fields.items() if before[key] != value}
        if agent.digest != known[name].digest:
            differing["agent"] = form.agent
        if differing:
            changes.append(Change("edit", name, differing))
    if prune:
        changes += [Change("delete", name, {}) for name in known if name not in wanted]
    return changes


@contextmanager
def _naming(file: Path, name: str) -> Iterator[None]:
    """Say in refusals which schedule of a file is meant."""
    try:
        yield
    except (SubmissionRefused, GraphError) as error:
        raise SubmissionRefused(f"{file}: schedule '{printable(name)}': {error}") from error


def _carry_out(client: Client, change: Change) -> None:
    match change.act:
        case "create":
            client.schedules.create(change.name, change.fields)
        case "edit":
            client.schedules.edit(change.name, change.fields)
        case _:
            client.schedules.delete(change.name)
    audit.note(client, f"schedule {change.act}", [change.name], detail="as a file has it")
