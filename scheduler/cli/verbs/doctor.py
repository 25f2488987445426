"""`sleipnir doctor`: check whether this installation can run agents, and say what to do if not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.config.agents import agent_search
from sleipnir.scheduler.config.directories import config_dir, data_dir
from sleipnir.scheduler.views.text.formatting import columns
from sleipnir.scheduler.views.text.terminal_output import style

with lazy_imports():
    from sleipnir.scheduler.config import checking, secrets, settings
    from sleipnir.scheduler.doctor import consistency, diagnosis
    from sleipnir.scheduler.store import connection

if TYPE_CHECKING:
    from sleipnir.scheduler.config.settings import LoadedSettings
    from sleipnir.scheduler.doctor.check import Check

_DEFAULT = "default"
_MARKS = {"ok": ("ok", "green"), "warning": ("warn", "yellow"), "error": ("FAIL", "red")}


@click.command
@click.option("--verify", is_flag=True, help="Check the consistency of all stored runs instead.")
@common_options(json=True)
def doctor(options: Options, verify: bool) -> ExitCode:
    """Check Redis, workers, models, MCP servers, interpreters and agents; list settings.

    Lists the settings that are not left at their defaults; -v lists all. Exits with 0 if runs can
    be executed, with 7 if there is no Redis that can be used, else with 1. Starts no workers.
    """
    if verify:
        return _verify(options)

    loaded = settings.load_settings(
        {"redis_url": options.redis, "agents_dir": options.agents_dir or None}
    )
    checks: list[Check] = []
    for check in diagnosis.diagnose(loaded.values, agent_search(loaded.values, options.agents_dir)):
        checks.append(check)
        if not options.json:
            _print(check)
    healthy = all(check.state != "error" for check in checks)
    if options.json:
        click.echo(json.dumps(_document(checks, loaded, healthy=healthy), ensure_ascii=False))
    else:
        click.echo()
        for line in _setting_lines(loaded, defaults=options.verbosity > 0):
            click.echo(line)
    if any(check.name == "Redis" and check.state == "error" for check in checks):
        return ExitCode.UNREACHABLE
    return ExitCode.SUCCEEDED if healthy else ExitCode.FAILED


def _verify(options: Options) -> ExitCode:
    """Check the consistency of all runs; safe while the engine is running."""
    with open_client(options, workers=False) as client:
        audit = consistency.ConsistencyCheck(client.store.client)
        violations = list(audit.violations())
    if options.json:
        found = [
            {"run_id": violation.run_id, "rule": violation.rule, "text": violation.text}
            for violation in violations
        ]
        document = {"consistent": not found, "runs": audit.runs_seen, "violations": found}
        click.echo(json.dumps(document, ensure_ascii=False))
    else:
        for violation in violations:
            click.echo(str(violation))
        options.say(f"{audit.runs_seen} runs checked, {len(violations)} violations")
    return ExitCode.FAILED if violations else ExitCode.SUCCEEDED


def _print(check: Check) -> None:
    mark, color = _MARKS[check.state]
    click.echo(f"{style(f'{mark:5}', fg=color)} {check.name}: {check.text}")
    if check.remedy:
        click.echo(f"      {check.remedy}")


def _document(checks: list[Check], loaded: LoadedSettings, *, healthy: bool) -> dict[str, Any]:
    return {
        "healthy": healthy,
        "checks": [
            {"name": c.name, "state": c.state, "text": c.text, "remedy": c.remedy} for c in checks
        ],
        "settings": [
            {"name": name, "value": value, "origin": loaded.origins[name]}
            for name, value in _values(loaded)
        ],
        "config_dir": str(config_dir()),
        "data_dir": str(data_dir()),
    }


def _setting_lines(loaded: LoadedSettings, *, defaults: bool) -> Iterator[str]:
    yield f"config directory: {config_dir()}"
    yield f"data directory:   {data_dir()}"
    rows = [
        (part, _text(inner), loaded.origins[name])
        for name, value in _values(loaded)
        for part, inner in _parts(name, value)
        if defaults or loaded.origins[name] != _DEFAULT
    ]
    if not defaults:
        told = "those not at their defaults" if rows else "all at their defaults"
        yield f"settings:         {told}; -v lists all"
    if rows:
        yield ""
        yield from columns(("SETTING", "VALUE", "FROM"), rows)


def _values(loaded: LoadedSettings) -> Iterator[tuple[str, Any]]:
    """Yield all settings, with passwords and secrets masked."""
    for name, value in checking.as_json(loaded.values).items():
        yield (
            name,
            secrets.hidden(connection.masked(value) if name.endswith("_url") and value else value),
        )


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a setting, or all parts of one that is a mapping, or a list of them."""
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        value = dict(enumerate(value))
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _parts(f"{name}.{key}", inner)
    else:
        yield name, value


def _text(value: Any) -> str:
    if value is None or value == {}:
        return "-"
    return ":".join(value) if isinstance(value, list) else str(value)
