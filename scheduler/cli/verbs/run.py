"""`sleipnir run`: submit one run and stay attached to it."""

from __future__ import annotations

from pathlib import Path

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import open_client, say_run_goes_on
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.recording_flags import require_place, write_recording
from sleipnir.scheduler.cli.submission import (
    Submission,
    say_lasting_warnings,
    say_origin,
    submission_parameters,
    submit_only,
)
from sleipnir.scheduler.errors import Terminated

with lazy_imports():
    from sleipnir.scheduler.cli import attach, run_result


@click.command
@submission_parameters
@click.option("--detach", is_flag=True, help="Print the run id and exit, as `submit` does.")
@click.option(
    "--record",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Record model and tool calls in FILE, for --replay.",
)
@click.option(
    "--stream/--no-stream",
    default=None,
    help="Print model replies as they are generated. Default: on a terminal.",
)
@click.option(
    "--pin/--no-pin",
    "pin",
    default=None,
    help="Execute the run's nodes on this machine only. Default: the setting `pin`.",
)
@common_options(json=True)
def run(
    options: Options,
    submission: Submission,
    detach: bool,
    record: Path | None,
    stream: bool | None,
    pin: bool | None,
) -> ExitCode:
    """Run AGENT on PROMPT (`-`: standard input) and print its result.

    Narration goes to standard error. Ctrl-C cancels the run, and a second one exits at once. At a
    question it leaves the run waiting, as Ctrl-D does.
    """
    require_place(record, detach, submission.replay)
    if detach:
        return submit_only(options, submission)
    submission = submission.with_files(options)
    with open_client(options, workers=True) as client:
        recording = submission.recording(client)
        prepared = submission.prepare(client, recording)
        run_id, asks = submission.new_run_id(client, prepared), submission.asks_here()
        streams = options.streams_replies if stream is None else stream and not options.quiet
        attachment = attach.Attachment(
            client, run_id, options, asks=asks, stays=False, streams=streams
        )
        try:
            submission.submit(
                client,
                prepared,
                run_id,
                recording,
                attached=True,
                pin=pin,
                recorded=record is not None,
                streamed=streams,
            )
            say_origin(options, prepared)
            found = attachment.follow()
        except KeyboardInterrupt:
            return run_result.cancelled(client, attachment, options)
        except Terminated:
            say_run_goes_on(options, run_id)
            raise
        client.pending_pointers.write()
        if record is not None:
            write_recording(client, [run_id], record, options, submission.prompt)
        code = run_result.print_result(client, found, options, attachment.open_questions())
        say_lasting_warnings(options, prepared)
        return code
