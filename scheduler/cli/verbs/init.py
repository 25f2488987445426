"""`sleipnir init`: a new agent that validates and runs as it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.output_files import write_file
from sleipnir.scheduler.cli.schema_file import modeline, schema_text

_TEMPLATES = Path(__file__).parents[2] / "templates"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_PLACEHOLDER = "__NAME__"
_SCHEMA_FILE = "graph.schema.json"


@click.command
@click.argument("name")
@click.option(
    "--template",
    type=click.Choice(sorted(path.name for path in _TEMPLATES.iterdir())),
    default="script",
    show_default=True,
    help="Example to start from: a script that routes, a model with a fallback, or an approval.",
)
@common_options()
def init(options: Options, name: str, template: str) -> None:
    """Create an agent in ./agents/NAME, or in the directory that NAME is a path to.

    It runs without a model and without an API key.
    """
    directory = Path(name) if "/" in name else Path("agents", name)
    if not _NAME.fullmatch(directory.name):
        raise click.BadParameter(
            f"'{directory.name}' is not a valid agent name; use letters, digits, '-', '_' and '.'",
            param_hint="NAME",
        )
    _make(directory)
    for file, text in _files(template, directory.name):
        path = directory / file
        path.parent.mkdir(exist_ok=True)
        write_file(path, text.encode())
    click.echo(directory)
    reference = name if "/" in name else directory.name
    options.say(f"try it: sleipnir run {reference} 'hello there'\nthen edit {directory}/graph.yaml")


def _make(directory: Path) -> None:
    if directory.is_dir() and not any(directory.iterdir()):
        return
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        raise click.UsageError(
            f"{directory} already exists; nothing was changed; choose another name"
        ) from None
    except OSError as error:
        raise click.FileError(str(directory), error.strerror) from error


def _files(template: str, name: str) -> Iterator[tuple[Path, str]]:
    """What goes into the agent's directory: relative path and text."""
    source = _TEMPLATES / template
    for file in sorted(path for path in source.rglob("*") if path.suffix in (".yaml", ".py")):
        text = file.read_text(encoding="utf-8").replace(_PLACEHOLDER, name)
        if file.name == "graph.yaml":
            text = f"{modeline(_SCHEMA_FILE)}\n{text}"
        yield file.relative_to(source), text
    yield Path(_SCHEMA_FILE), schema_text()
