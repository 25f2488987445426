"""Ends commands that are attached to a run: its result on stdout, why it failed on stderr."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from sleipnir.scheduler.cli.attach import Attachment, explain
from sleipnir.scheduler.cli.connect import say_run_goes_on
from sleipnir.scheduler.cli.exit_codes import ExitCode, exit_code_of
from sleipnir.scheduler.cli.terminal import is_terminal
from sleipnir.scheduler.errors import RunNotFound, Terminated
from sleipnir.scheduler.runs.history import node_times
from sleipnir.scheduler.runs.model import Failure, Question, Run, Status
from sleipnir.scheduler.views.documents import question_document, run_document
from sleipnir.scheduler.views.text.formatting import headline, place_of_failure
from sleipnir.scheduler.views.text.terminal_output import printable

if TYPE_CHECKING:
    from sleipnir.scheduler.cli.options import Options
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types.run import RunResultDocument, WaitingRunDocument

T = TypeVar("T")

# How many tolerated failures to print; `show` has more.
_TOLD_FAILURES = 5


def document_of(client: Client, run: Run) -> RunResultDocument:
    """Return the document of a run as it is now."""
    records = client.queries
    return run_document(
        run,
        records.state(run.run_id),
        steps=records.steps(run.run_id),
        now_ms=records.now_ms(),
        failures=records.failures(run),
    )


def _attached_document(
    client: Client, run: Run, questions: Sequence[Question]
) -> RunResultDocument | WaitingRunDocument:
    document = document_of(client, run)
    return {**document, "question": question_document(questions[0])} if questions else document


def print_result(
    client: Client, run: Run, options: Options, questions: Sequence[Question]
) -> ExitCode:
    """Print the run's result, or what it waits for; return the exit code."""
    if options.verbosity:
        _print_times(client, run)
    if options.json:
        print_json(_attached_document(client, run, questions))
    elif run.output is not None:
        click.echo(run.output, nl=not run.output.endswith("\n"))
    misses = client.recordings.misses(run.run_id) if run.context.replay is not None else ()
    for miss in misses:
        options.say(f"no recorded reply: {printable(miss)}")
    if run.status == Status.WAITING:
        for question in questions:
            explain(options, question)
        options.say(f"and continue with: sleipnir watch {run.run_id}")
        options.say(f"or cancel it with: sleipnir cancel {run.run_id}")
    elif run.failure is not None:
        _print_failure(run, run.failure)
    _print_earlier_failures(client, run)
    if misses and run.status == Status.SUCCEEDED:
        return ExitCode.FAILED  # it succeeded, but not as recorded
    return exit_code_of(run.status)


def print_json(value: object) -> None:
    """Print a JSON document on one line."""
    click.echo(json.dumps(value, ensure_ascii=False))


def print_list(
    options: Options,
    documents: Sequence[T],
    lines_of: Callable[[Sequence[T]], Iterable[str]],
    nothing: str,
) -> None:
    """Print documents, each on one line, or as a table for people; say `nothing` without any."""
    if options.json:
        for document in documents:
            print_json(document)
    elif documents:
        for line in lines_of(documents):
            click.echo(line)
    else:
        options.say(nothing)


def print_secret(options: Options, secret: str) -> None:
    """Print a secret alone, so that a program can read it."""
    options.say("its secret, which is not shown again:")
    click.echo(secret)


def print_deleted(options: Options, kind: str, name: str) -> None:
    """Print that something with a name, such as a schedule, is deleted."""
    if options.json:
        print_json({"name": name, "deleted": True})
    else:
        options.say(f"deleted {kind} '{name}'")


def _print_failure(run: Run, failure: Failure) -> None:
    """Print the reason in full; the narration only has its beginning."""
    place = f" at node '{failure.node}'" if failure.node else ""
    ended = run.status.replace("_", " ")
    code = f"{failure.code}: " if run.status == Status.FAILED else ""
    message = printable(failure.message)
    click.echo(f"error: run {run.run_id} {ended}{place}: {code}{message}", err=True)


def _print_earlier_failures(client: Client, run: Run) -> None:
    """Print earlier failures, which may have caused the end, and where to find more."""
    failures = client.queries.failures(run)
    if run.status != Status.FAILED:
        failures = [each for each in failures if not each.handled]
    for each in failures[:_TOLD_FAILURES]:
        click.echo(f"{place_of_failure(each)} failed: {headline(each)}", err=True)
    if len(failures) > _TOLD_FAILURES:
        click.echo(f"and {len(failures) - _TOLD_FAILURES} more", err=True)
    if failures or run.status == Status.FAILED:
        click.echo(f"for details: sleipnir show {run.run_id}", err=True)


def _print_times(client: Client, run: Run) -> None:
    click.echo(f"[graph:{run.agent}] performance summary (slowest first):", err=True)
    for row in node_times(client.queries.history(run.run_id)):
        click.echo(
            f"[graph:{run.agent}]   {row.node}: {row.visits} visit(s), total {row.total_ms}ms, "
            f"avg {row.avg_ms:.0f}ms, max {row.max_ms}ms",
            err=True,
        )


def stay(
    client: Client,
    run_id: str,
    options: Options,
    *,
    streams: bool,
    start: Callable[[], object] | None = None,
) -> ExitCode:
    """Follow a run as `run` does: narrate, ask, print its result; Ctrl-C cancels it.

    Args:
        start: starts or continues the run; only later events are shown.
    """
    attachment = Attachment(
        client, run_id, options, asks=is_terminal(), stays=False, streams=streams
    )
    if start is not None:
        attachment.skip_what_was_told()
        start()
    try:
        found = attachment.follow()
    except KeyboardInterrupt:
        return cancelled(client, attachment, options)
    except Terminated:
        say_run_goes_on(options, run_id)
        raise
    return print_result(client, found, options, attachment.open_questions())


def cancelled(client: Client, attachment: Attachment, options: Options) -> ExitCode:
    """Cancel the run, which may be costing money, and show its end."""
    with contextlib.suppress(RunNotFound):  # it was not submitted yet
        client.cancel(attachment.run_id)
        options.say(f"cancelling run {attachment.run_id}; Ctrl-C again exits at once")
        try:
            print_result(client, attachment.follow(), options, ())
        except KeyboardInterrupt:
            # Don't wait for our embedded engine: it stops by itself once we are gone.
            os._exit(ExitCode.INTERRUPTED)
    return ExitCode.INTERRUPTED
