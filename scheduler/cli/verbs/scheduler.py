"""`sleipnir scheduler`: look after deadlines, retries and lost workers of a shared Redis."""

from __future__ import annotations

import logging
import signal
import sys

import click

from sleipnir.scheduler.cli.connect import require_redis, settings_of
from sleipnir.scheduler.cli.options import Options, common_options


@click.command
@common_options()
def scheduler(options: Options) -> None:
    """Run a scheduler until Ctrl-C or SIGTERM; several share the work and replace each other."""
    settings = settings_of(options)
    require_redis(settings)
    # What talks to Redis is not needed to complain about settings.
    from sleipnir.scheduler.failpoints import install_requested  # noqa: PLC0415
    from sleipnir.scheduler.service.scheduler import Scheduler  # noqa: PLC0415
    from sleipnir.scheduler.store.connection import connect  # noqa: PLC0415
    from sleipnir.scheduler.store.dispatch import make_dispatcher  # noqa: PLC0415
    from sleipnir.scheduler.store.run_store import RunStore  # noqa: PLC0415

    install_requested(*RunStore.PARTS)
    assert settings.redis_url is not None
    logging.basicConfig(
        level=logging.DEBUG if options.verbosity else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    dispatcher = make_dispatcher(settings.redis_url, settings.broker_url)
    store = RunStore(connect(settings.redis_url, retry_outage=True), settings, dispatcher)
    service = Scheduler(store)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: service.request_stop())
    options.say("scheduler: running; Ctrl-C stops it")
    service.run()
