"""`sleipnir draw`: draw a graph, or a run's progress in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
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
    from sleipnir.scheduler.drawing import processes
    from sleipnir.scheduler.runs import history

if TYPE_CHECKING:
    from sleipnir.graphs.drawing import Outline, Progress
    from sleipnir.graphs.drawing.native import Native
    from sleipnir.graphs.schema import Graph
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.model import Run
    from sleipnir.scheduler.store.queries import RunQueries

    Colours = Mapping[str, Progress]
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
            graph, colours = _graph_of_run(client, client.queries.resolve(run_id), step)
    else:
        assert agent is not None
        graph, colours = _graph_of_agent(options, agent), None
    picture = _drawn(writer, drawing.outline_of(graph, colours))
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


def _graph_of_agent(options: Options, reference: str) -> Graph:
    agent = loader.load_agent(search_of(options).find(reference))
    if not agent.is_graph:
        raise click.UsageError(f"'{agent.name}' is a normal agent; it has no graph to draw")
    if agent.graph is None:
        raise InvalidAgent(agent.findings)
    return agent.graph


def _graph_of_run(client: Client, run_id: str, step: int | None) -> tuple[Graph, Colours]:
    """Return the graph as submitted, and the run's progress after a step, or now."""
    run = client.queries.run(run_id)
    if run.context.converses:
        raise click.UsageError(f"run {run_id} is of a normal agent; it has no graph to draw")
    if step is None:
        return client.graph_of(run), progress_of(run, client.queries)
    return client.graph_of(run), _progress_after(client, run_id, step)


def _progress_after(client: Client, run_id: str, step: int) -> dict[str, Progress]:
    """Return the progress of each node that a run had reached after a step."""
    progress: dict[str, Progress] = {}
    last = -1
    for checkpoint in islice(client.queries.checkpoints(run_id), step + 1):
        last = checkpoint.step
        for node, timing in checkpoint.nodes.items():
            progress[node] = "tolerated" if timing.get("failed") else "done"
    if last < step:
        raise click.UsageError(f"step {step} does not exist; the last one is {last}")
    return {**progress, **dict.fromkeys(checkpoint.frontier, "running")}


def progress_of(run: Run, records: RunQueries) -> dict[str, Progress]:
    """Return the progress of each node that the run has reached."""
    progress: dict[str, Progress] = {
        row.node: "tolerated" if row.failed else "done"
        for row in history.node_times(records.history(run.run_id))
    }
    if not run.is_final:
        waiting = {question.node for question in records.questions(run.run_id)}
        for node in run.frontier:
            progress[node] = "waiting" if node in waiting else "running"
    if run.failure is not None and run.failure.node is not None:
        progress[run.failure.node] = "failed"
    return progress
