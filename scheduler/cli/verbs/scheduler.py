"""`sleipnir scheduler`: handle deadlines, retries and lost workers on a shared Redis."""

from __future__ import annotations

import logging
import signal

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import require_redis, settings_of
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.serving import open_health, serving_options

with lazy_imports():
    from sleipnir.scheduler.hooks import delivering
    from sleipnir.scheduler.process import logs
    from sleipnir.scheduler.service import archiving
    from sleipnir.scheduler.service import health as service_health
    from sleipnir.scheduler.service import scheduler as service
    from sleipnir.scheduler.store import connection, dispatch, failpoints, run_store


@click.command
@serving_options
@common_options()
def scheduler(options: Options, served: dict[str, str | None]) -> None:
    """Run a scheduler until Ctrl-C or SIGTERM; several share the work, with failover."""
    settings = settings_of(options, **served)
    warnings = require_redis(settings)
    failpoints.install_requested(*run_store.RunStore.PARTS)
    assert settings.redis_url is not None
    level = logging.DEBUG if options.verbosity else logs.level_of(settings.log_level)
    logs.configure_logging(level, settings.log_format)
    for warning in warnings:
        logging.getLogger("sleipnir.scheduler").warning("%s", warning)
    dispatcher = dispatch.make_dispatcher(settings.redis_url, settings.broker_url)
    store = run_store.RunStore(
        connection.connect(settings.redis_url, retry_outage=True), settings, dispatcher
    )
    delivery, archiver = delivering.event_delivery(store), archiving.archiver_of(store)
    running = service.Scheduler(store, deliverer=delivery, archiver=archiver)
    health = service_health.SchedulerHealth(running, settings.lease_s)
    open_health(health.open, settings.health_address)

    def stop(*_: object) -> None:
        health.stopping()
        running.request_stop()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    if settings.log_format == "json":
        logging.getLogger("sleipnir.scheduler").info("scheduler: running")
    else:
        options.say("scheduler: running; Ctrl-C stops it")
    running.run()
