"""A worker process, with the scheduler in it if asked for: from arguments to exit."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import warnings

from sleipnir.scheduler.config.settings import load_settings
from sleipnir.scheduler.errors import SleipnirError
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
    logging.basicConfig(
        level=logging.DEBUG if arguments.verbose > 1 else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    # Celery warns of pickle, which no message of ours uses.
    warnings.filterwarnings("ignore", "You're running the worker with superuser privileges")
    if arguments.verbose == 0:
        # Records of each run cost reading its history, so they are logged only on request.
        # What faiss logs when it is imported is about its own build.
        for name in ("sleipnir.graph", "faiss"):
            logging.getLogger(name).setLevel(logging.WARNING)
    if arguments.quiet and arguments.verbose == 0:
        _silence_celery()
    try:
        install_requested(*RunStore.PARTS, run_visit)
        settings = load_settings(
            {
                "redis_url": arguments.redis,
                "broker_url": arguments.broker,
                "concurrency": arguments.concurrency,
            }
        ).values
        if settings.redis_url is None:
            parser.error("no Redis is configured: give one with --redis or SLEIPNIR_REDIS_URL")
        serve(settings, with_scheduler=arguments.scheduler, reports_to=arguments.reports_to)
    except SleipnirError as error:
        logging.getLogger("sleipnir").error("%s", error)
        return 7
    return 0


def _silence_celery() -> None:
    """Hide Celery's startup messages; errors are still shown."""
    logging.getLogger("celery").setLevel(logging.WARNING)
    # Celery prints nothing there but the signal it has received.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
