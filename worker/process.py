"""One worker process from its arguments to its end, with the scheduler beside it if asked."""

from __future__ import annotations

import argparse
import logging
import sys

from sleipnir.scheduler.cli.terminal_output import protect_terminals
from sleipnir.scheduler.config.settings import load_settings
from sleipnir.scheduler.errors import SleipnirError
from sleipnir.scheduler.failpoints import install_requested
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.worker.bootstrap import serve
from sleipnir.worker.delivery import run_visit


def main() -> int:
    """Run until SIGTERM; 0 after a clean drain."""
    parser = argparse.ArgumentParser(prog="sleipnir-worker")
    parser.add_argument("--redis", help="default: the configured one")
    parser.add_argument("--broker")
    parser.add_argument("--scheduler", action="store_true")
    parser.add_argument("--concurrency", type=int)
    parser.add_argument("-v", "--verbose", action="count", default=0)
    arguments = parser.parse_args()
    protect_terminals()
    logging.basicConfig(
        level=logging.DEBUG if arguments.verbose > 1 else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    if arguments.verbose == 0:
        # Records of each run cost a reading of its history; they are there when asked for.
        logging.getLogger("sleipnir.graph").setLevel(logging.WARNING)
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
        serve(settings, with_scheduler=arguments.scheduler)
    except SleipnirError as error:
        logging.getLogger("sleipnir").error("%s", error)
        return 7
    return 0
