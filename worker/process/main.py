"""A worker process, with the scheduler in it if asked for: from arguments to exit."""

from __future__ import annotations

import argparse
import logging
import os
import warnings

from sleipnir.scheduler.config.settings import Settings, load_settings
from sleipnir.scheduler.errors import SleipnirError
from sleipnir.scheduler.process.logs import configure_logging, level_of
from sleipnir.scheduler.store.failpoints import install_requested
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.scheduler.views.text.terminal_output import protect_terminals
from sleipnir.worker.delivery import run_visit
from sleipnir.worker.process.bootstrap import serve


def main() -> int:
    """Run until SIGTERM; return 0 after a clean drain."""
    parser = argparse.ArgumentParser(prog="sleipnir-worker")
    parser.add_argument("--redis", help="default: the configured one")
    parser.add_argument("--broker")
    parser.add_argument("--scheduler", action="store_true")
    parser.add_argument("--concurrency", type=int)
    parser.add_argument("--reports-to", type=int, metavar="FD", help="for its supervisor")
    parser.add_argument("-v", "--verbose", action="count", default=0)
    parser.add_argument("-q", "--quiet", action="store_true", help="nothing of Celery's but errors")
    arguments = parser.parse_args()
    protect_terminals()
    # Celery warns of pickle, which no message of ours uses.
    warnings.filterwarnings("ignore", "You're running the worker with superuser privileges")
    # What a worker does when it has lost its broker is the engine's business.
    warnings.filterwarnings(
        "ignore", r"\s*In Celery 5\.1 we introduced an optional breaking change"
    )
    logging.basicConfig(level=logging.INFO)
    try:
        install_requested(*RunStore.PARTS, run_visit)
        settings = load_settings(
            {
                "redis_url": arguments.redis,
                "broker_url": arguments.broker,
                "concurrency": arguments.concurrency,
            }
        ).values
        _configure_logging(settings, arguments.verbose, is_quiet=arguments.quiet)
        if settings.redis_url is None:
            parser.error("no Redis is configured: give one with --redis or SLEIPNIR_REDIS_URL")
        serve(settings, with_scheduler=arguments.scheduler, reports_to=arguments.reports_to)
    except SleipnirError as error:
        logging.getLogger("sleipnir").error("%s", error)
        return 7
    return 0


def _configure_logging(settings: Settings, verbosity: int, *, is_quiet: bool) -> None:
    level = logging.DEBUG if verbosity > 1 else level_of(settings.log_level)
    configure_logging(level, settings.log_format)
    # To mask a URL, Celery makes a connection that is never opened; kombu misses its TLS options.
    logging.getLogger("kombu.connection").setLevel(max(level, logging.ERROR))
    if verbosity == 0:
        # Records of each run cost reading its history, so they are logged only on request.
        # What faiss logs when it is imported is about its own build.
        for name in ("sleipnir.graph", "faiss"):
            logging.getLogger(name).setLevel(max(level, logging.WARNING))
    if is_quiet and verbosity == 0:
        logging.getLogger("celery").setLevel(logging.WARNING)
    if (is_quiet and verbosity == 0) or settings.log_format == "json":
        _silence_celery()


def _silence_celery() -> None:
    """Hide what Celery prints on standard output: nothing but the signal it has received."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
