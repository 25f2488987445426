"""What `sleipnir batch` says when it ends before its runs do."""

from __future__ import annotations

from sleipnir.scheduler.batch.options import Progress
from sleipnir.scheduler.cli.connect import report_still_running, settings_of
from sleipnir.scheduler.cli.options import Options


def say_interrupted(options: Options, name: str, progress: Progress) -> None:
    """Say after Ctrl-C how far the batch came."""
    options.say(
        f"batch {name}: interrupted after {progress.finished:,} of {progress.total:,} lines. "
        "Run the same command again to continue."
    )
    if progress.in_flight:
        runs = (
            "1 run continues" if progress.in_flight == 1 else f"{progress.in_flight} runs continue"
        )
        report_still_running(options, runs)


def say_terminated(options: Options, name: str, progress: Progress) -> None:
    """Say after a termination signal how far the batch came."""
    when = "" if settings_of(options).redis_url is not None else " whenever an engine runs"
    options.say(
        f"batch {name}: terminated after {progress.finished} of {progress.total} lines; "
        f"runs in progress ({progress.in_flight}) continue{when}. Run the same "
        f"command again to continue; `sleipnir batch --status {name}` shows its progress"
    )


def say_fetched_later(options: Options) -> None:
    """Say that without an engine nobody asks providers for the answers to batches."""
    if settings_of(options).redis_url is None:
        options.say(
            "answers of provider batches are fetched whenever an engine runs, such as by "
            "`sleipnir up`"
        )
