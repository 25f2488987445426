"""`sleipnir diff`: what two runs did differently."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import complete_runs
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.terminal_output import printable

with lazy_imports():
    from sleipnir.scheduler.cli import run_result

if TYPE_CHECKING:
    from sleipnir.scheduler.second_chances.difference import Difference, NodeDifference


@click.command
@click.argument("run_a", metavar="RUN_A", shell_complete=complete_runs)
@click.argument("run_b", metavar="RUN_B", shell_complete=complete_runs)
@click.option(
    "--step",
    type=click.IntRange(min=0),
    help="Compare them as they were after this super-step. Default: as they are now.",
)
@common_options(json=True)
def diff(options: Options, run_a: str, run_b: str, step: int | None) -> ExitCode:
    """Compare two runs: their routes, their nodes, their final states.

    Exits with 0 if route, output and final state are the same, else with 1.
    """
    with open_client(options, workers=False) as client:
        resolve = client.queries.resolve
        found = client.diff(resolve(run_a), resolve(run_b), step)
    if options.json:
        run_result.print_json(found.to_json())
    else:
        for line in _lines(found):
            click.echo(printable(line))
    return ExitCode.SUCCEEDED if found.equal else ExitCode.FAILED


def _lines(found: Difference) -> Iterator[str]:
    if found.route.differs:
        yield f"routes part after step {len(found.common)}:"
        yield f"- {_route(found.route.a)}"
        yield f"+ {_route(found.route.b)}"
    else:
        yield f"the same route: {_route(found.common)}"
    for node in found.nodes:
        yield from _node(node)
    for name, pair in {"output": found.output, **found.changed}.items():
        if pair.differs:
            yield f"{name}:"
            yield f"- {_text(pair.a)}"
            yield f"+ {_text(pair.b)}"
    yield from (f"- {path}: {_text(value)}" for path, value in found.removed.items())
    yield from (f"+ {path}: {_text(value)}" for path, value in found.added.items())
    for name, pair in found.totals.items():
        yield f"{name}: {_text(pair.a)} | {_text(pair.b)}"


def _route(steps: Sequence[tuple[str, ...]]) -> str:
    return " -> ".join(", ".join(step) for step in steps) or "nothing"


def _node(node: NodeDifference) -> Iterator[str]:
    """What differs of a node, but for the time it took."""
    names = [n for n in ("writes", "error", "usage") if node.fields[n].differs]
    step = node.fields["step"]
    if names and None not in (step.a, step.b):
        yield f"{node.node} (step {step.a} | {step.b}): {', '.join(names)} differ"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
