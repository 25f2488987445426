"""`sleipnir draw`: draw a graph, or a run's progress in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sleipnir.graphs.errors import InvalidAgent
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import complete_agents, complete_runs
from sleipnir.scheduler.cli.connect import open_client, search_of
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.output_files import write_file

with lazy_imports():
    from sleipnir.graphs import drawing
    from sleipnir.graphs.document import loader
    from sleipnir.graphs.validator import scripts
    from sleipnir.scheduler.process.drawing import processes
    from sleipnir.scheduler.views.graph import progress

if TYPE_CHECKING:
    from sleipnir.graphs.drawing import Outline
    from sleipnir.graphs.drawing.native import Native
    from sleipnir.scheduler.client import Client

    Writer = Callable[[Outline, Native], str | bytes]

# CPU time for a layout; who waits for longer ends it.
_LIMIT_S = 30.0


@click.command
@click.argument("agent", required=False, shell_complete=complete_agents)
@click.option(
    "-o",
    "target",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Output file: .mmd, .dot, .svg or .png. Default: Mermaid on stdout.",
)
@click.option(
    "--run",
    "run_id",
    metavar="RUN",
    shell_complete=complete_runs,
    help="Colour the nodes by a run's progress.",
)
@click.option(
    "--step",
    type=click.IntRange(min=0),
    help="With --run: its progress after this super-step; 0 is the start.",
)
@common_options()
def draw(
    options: Options,
    agent: str | None,
    target: Path | None,
    run_id: str | None,
    step: int | None,
) -> None:
    """Draw the graph of AGENT, or that of a run with its progress."""
    if (agent is None) == (run_id is None):
        raise click.UsageError("give AGENT, or a run with --run")
    if step is not None and run_id is None:
        raise click.UsageError("--step needs a run; name one with --run")
    writer = _writer(target)
    if run_id is not None:
        with open_client(options, workers=False) as client:
            outline = _outline_of_run(client, client.queries.resolve(run_id), step)
    else:
        assert agent is not None
        outline = _outline_of_agent(options, agent)
    picture = _drawn(writer, outline)
    if target is None:
        click.echo(picture, nl=False)
    else:
        write_file(target, picture if isinstance(picture, bytes) else picture.encode())


def _drawn(writer: Writer, outline: Outline) -> str | bytes:
    try:
        with processes.DrawingProcesses(_LIMIT_S) as native:
            return writer(outline, native)
    except processes.DrawingTooLarge as error:
        raise processes.DrawingTooLarge(
            f"{error}; write .mmd or .dot, which need no layout"
        ) from error


def _writer(target: Path | None) -> Writer:
    writers: dict[str, Writer] = {
        ".mmd": lambda outline, _: drawing.to_mermaid(outline),
        ".mermaid": lambda outline, _: drawing.to_mermaid(outline),
        ".dot": lambda outline, _: drawing.to_dot(outline),
        ".gv": lambda outline, _: drawing.to_dot(outline),
        ".svg": drawing.to_svg,
        ".png": drawing.to_png,
    }
    suffix = ".mmd" if target is None else target.suffix.lower()
    if suffix not in writers:
        raise click.UsageError(
            f"unsupported format '{suffix or target}'; use .mmd, .dot, .svg or .png"
        )
    return writers[suffix]


def _outline_of_agent(options: Options, reference: str) -> Outline:
    agent = loader.load_agent(search_of(options).find(reference))
    if not agent.is_graph:
        raise click.UsageError(f"'{agent.name}' is a normal agent; it has no graph to draw")
    if agent.graph is None:
        raise InvalidAgent(agent.findings)
    return drawing.outline_of(agent.graph, scripts.routes_of_scripts(agent.directory, agent.graph))


def _outline_of_run(client: Client, run_id: str, step: int | None) -> Outline:
    """Return what is drawn of the graph as submitted, with the progress after a step, or now."""
    run = client.queries.run(run_id)
    if run.context.converses:
        raise click.UsageError(f"run {run_id} is of a normal agent; it has no graph to draw")
    _, outline = client.outline_of(run)
    try:
        return progress.drawn_progress(client, run, outline, step=step)
    except IndexError as error:
        raise click.UsageError(str(error)) from error
