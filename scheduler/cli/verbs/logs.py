"""`sleipnir logs`: print the output of a run's nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.cli.arguments import complete_logged_nodes, run_argument
from sleipnir.scheduler.cli.connect import open_client, report_still_running, say_run_goes_on
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.paging import time_bound
from sleipnir.scheduler.errors import Terminated
from sleipnir.scheduler.views.text.terminal_output import printable, style

with lazy_imports():
    from sleipnir.scheduler.store import clock
    from sleipnir.scheduler.views.text import transcripts as transcript_lists

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.time_bounds import TimeBound

# Output is stored just before the visit's end is narrated; this is for ends that are not.
_LOOK_MS = 1_000


@click.command
@run_argument
@click.option(
    "--node",
    metavar="NODE",
    shell_complete=complete_logged_nodes,
    help="Only entries of this node.",
)
@click.option(
    "--since",
    callback=time_bound,
    metavar="WHEN",
    help="Only entries stored since: 15m, 4h or 7d ago, or an RFC 3339 time.",
)
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the newest N entries.")
@click.option(
    "--transcripts",
    is_flag=True,
    help="Print what was sent to models, and the replies, instead.",
)
@click.option("-f", "--follow", is_flag=True, help="Print new entries too, until the run ends.")
@common_options(json=True)
def logs(
    options: Options,
    run_id: str,
    node: str | None,
    since: TimeBound | None,
    tail: int | None,
    transcripts: bool,
    follow: bool,
) -> None:
    """Print the stored output of RUN's scripts, tools and models.

    A node's output is stored when it finishes a visit. With --follow, Ctrl-C detaches; the run
    continues.
    """
    if transcripts and follow:
        raise click.UsageError("--transcripts are stored when a visit ends: leave out --follow")
    with open_client(options, workers=False) as client:
        run_id = client.queries.resolve(run_id)
        since_ms = None if since is None else since.at(client.queries.now_ms())
        log = _Log(client, options, run_id, node, since_ms)
        if transcripts:
            _print_transcripts(log, tail)
            return
        log.say_what_was_dropped()
        log.print_more(tail)
        if follow and not client.queries.run(run_id).is_final:
            with open_client(options, workers=True):  # keeps workers of the embedded engine running
                _follow(log)
        if not log.printed:
            options.say("no log entries")


@dataclass(slots=True)
class _Log:
    """The log of a run, and how far it was printed."""

    client: Client
    options: Options
    run_id: str
    node: str | None
    since_ms: int | None
    end: int = 0  # the position read so far
    printed: int = 0

    def say_what_was_dropped(self) -> None:
        if dropped := self.client.queries.logs_dropped(self.run_id):
            self.options.say(
                f"{dropped} older entries were dropped: the newest are kept, 1,000 of them and "
                f"{self.client.store.settings.log_limit_bytes:,} bytes at most (log_limit_bytes)"
            )

    def print_more(self, tail: int | None = None) -> None:
        """Print entries that came in since the last call, the newest `tail` at most."""
        part = self.client.queries.log_part(self.run_id, self.end)
        entries = self.wanted(part.entries)
        for entry in entries if tail is None else entries[max(0, len(entries) - tail) :]:
            _print(entry, as_json=self.options.json)
        self.end = part.end
        self.printed += len(entries)

    def wanted(self, entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the entries that match the flags."""
        return [
            entry
            for entry in entries
            if (self.node is None or entry["node"] == self.node)
            and (self.since_ms is None or entry.get("at", 0) >= self.since_ms)
        ]


def _print_transcripts(log: _Log, tail: int | None) -> None:
    stored = log.client.queries.transcripts(log.run_id)
    entries = log.wanted(stored)
    for entry in entries if tail is None else entries[max(0, len(entries) - tail) :]:
        if log.options.json:
            _print(entry, as_json=True)
        for line in () if log.options.json else transcript_lists.transcript_lines(entry):
            click.echo(line)
    if stored and not entries:
        log.options.say(f"none of the {len(stored):,} transcripts matches")
    elif not stored and log.client.queries.run(log.run_id).is_final:
        log.options.say(
            "no transcripts: it called no model, or the workers' `transcripts` is not `all`"
        )
    elif not stored:
        log.options.say("no transcripts yet: a visit's model calls are stored when it ends")


def _follow(log: _Log) -> None:
    try:
        newest = log.client.queries.newest_entry(log.run_id)
        after = "0" if newest is None else newest.event_id
        while True:
            news = log.client.queries.news(log.run_id, after, _LOOK_MS)
            log.print_more()
            if news.ended is not None:
                return
            after = news.entries[-1].event_id if news.entries else after
    except KeyboardInterrupt:
        report_still_running(log.options, f"detached: run {log.run_id} continues")
        raise
    except Terminated:
        say_run_goes_on(log.options, log.run_id)
        raise


def _print(entry: Mapping[str, Any], *, as_json: bool) -> None:
    """Print an entry as JSON, or its text with its origin before each line."""
    if as_json:
        at = {"at": clock.to_rfc3339(entry["at"])} if "at" in entry else {}
        click.echo(json.dumps({**entry, **at}, ensure_ascii=False))
        return
    item = "" if entry["index"] is None else f"[{entry['index']}]"
    origin = style(f"{entry['step']} {entry['node']}{item} {entry['stream']} |", dim=True)
    for line in entry["text"].splitlines():
        click.echo(f"{origin} {printable(line)}")
