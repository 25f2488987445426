"""`sleipnir scheduler`: handle deadlines, retries and lost workers on a shared Redis."""

from __future__ import annotations

import logging
import signal
import sys

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import require_redis, settings_of
from sleipnir.scheduler.cli.health import health_option, open_health
from sleipnir.scheduler.cli.options import Options, common_options

with lazy_imports():
    from sleipnir.scheduler.service import health as service_health
    from sleipnir.scheduler.service import scheduler as service
    from sleipnir.scheduler.store import connection, dispatch, failpoints, run_store


@click.command
@health_option
@common_options()
def scheduler(options: Options, health_address: str | None) -> None:
    """Run a scheduler until Ctrl-C or SIGTERM; several share the work, with failover."""
    settings = settings_of(options, health_address=health_address)
    for warning in require_redis(settings):
        options.say(f"warning: {warning}")
    failpoints.install_requested(*run_store.RunStore.PARTS)
    assert settings.redis_url is not None
    logging.basicConfig(
        level=logging.DEBUG if options.verbosity else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    dispatcher = dispatch.make_dispatcher(settings.redis_url, settings.broker_url)
    store = run_store.RunStore(
        connection.connect(settings.redis_url, retry_outage=True), settings, dispatcher
    )
    running = service.Scheduler(store)
    health = service_health.SchedulerHealth(running, settings.lease_s)
    open_health(health.open, settings.health_address)

    def stop(*_: object) -> None:
        health.stopping()
        running.request_stop()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    options.say("scheduler: running; Ctrl-C stops it")
    running.run()
