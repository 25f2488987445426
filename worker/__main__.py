"""`python -m worker`: one worker process, with the scheduler beside it if asked."""

from __future__ import annotations

import argparse
import logging
import sys

from scheduler.errors import SleipnirError
from scheduler.settings import load_settings
from worker.process import serve


def main() -> int:
    """Run until SIGTERM; 0 after a clean drain."""
    parser = argparse.ArgumentParser(prog="sleipnir-worker")
    parser.add_argument("--redis", required=True)
    parser.add_argument("--broker")
    parser.add_argument("--scheduler", action="store_true")
    parser.add_argument("--concurrency", type=int)
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    logging.basicConfig(
        level=logging.DEBUG if arguments.verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    try:
        settings = load_settings(
            {
                "redis_url": arguments.redis,
                "broker_url": arguments.broker,
                "concurrency": arguments.concurrency,
            }
        ).values
        serve(settings, with_scheduler=arguments.scheduler)
    except SleipnirError as error:
        logging.getLogger("sleipnir").error("%s", error)
        return 7
    return 0


if __name__ == "__main__":
    sys.exit(main())
