"""`sleipnir init`: create a new agent that validates and runs as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
from click.core import ParameterSource

from sleipnir.scheduler.cli.arguments import complete_agents
from sleipnir.scheduler.cli.connect import search_of
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.output_files import write_file
from sleipnir.scheduler.cli.schema_file import kind_of, modeline, schema_text
from sleipnir.scheduler.config import trusted_agents
from sleipnir.scheduler.errors import SleipnirError
from sleipnir.scheduler.views.text.formatting import columns

_TEMPLATES = Path(__file__).parents[1] / "templates"
_ABOUT = {
    "script": "a script, without a model",
    "llm": "a model with a fallback",
    "approval": "a person who decides",
    "map": "a list, several items at a time",
    "tools": "a model that calls functions of tools.py",
    "agent": "a model in a tool loop, to chat with",
    "classify": "sorting a table, with an evaluation",
    "extract": "images and PDFs, read into fields",
    "rag": "answers from documents",
    "research": "questions side by side, a report, a judge, an approval",
    "judge": "scores for the answers of another agent",
}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_PLACEHOLDER = "__NAME__"
_COPIED = frozenset({".yaml", ".py", ".csv", ".jsonl", ".md", ".pdf"})
_LINK = re.compile(r"\[([^\[\]]+)\]\((\.\./[^()#\s]*)(?:#[^()\s]*)?\)")
_NOT_COPIED = frozenset({"__pycache__", ".git", ".venv"})


@click.command
@click.argument("name", required=False)
@click.option(
    "--template",
    type=click.Choice(list(_ABOUT)),
    default="script",
    show_default=True,
    help="Example to start from. " + "; ".join(f"{k}: {v}" for k, v in _ABOUT.items()) + ".",
)
@click.option(
    "--from",
    "copied",
    metavar="AGENT",
    shell_complete=complete_agents,
    help="Start from a copy of this agent instead of a template.",
)
@click.option("--list", "lists", is_flag=True, help="Print the templates, and exit.")
@common_options()
def init(
    options: Options, name: str | None, template: str, copied: str | None, lists: bool
) -> None:
    """Create an agent in ./agents/NAME, or in the directory NAME if that is a path.

    An agent made from a template runs without a model and without an API key; only `agent`, a
    config.yaml instead of a graph.yaml, needs one.
    """
    if lists:
        click.echo("\n".join(columns(("TEMPLATE", "FOR"), list(_ABOUT.items()))))
        return
    if name is None:
        raise click.UsageError("name the new agent; --list prints the templates")
    source = None if copied is None else _to_copy(options, copied)
    directory = Path(name) if "/" in name else Path("agents", name)
    if not _NAME.fullmatch(directory.name):
        raise click.BadParameter(
            f"'{directory.name}' is not a valid agent name; use letters, digits, '-', '_' and '.'",
            param_hint="NAME",
        )
    _make(directory)
    made = _files(template, directory.name) if source is None else _copies(source, directory)
    for file, content in made:
        path = directory / file
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content)
    _trust(options, directory)
    click.echo(directory)
    reference = name if "/" in name else directory.name
    if source is not None:
        options.say(f"change it, then: sleipnir validate {reference}")
    elif template == "agent":
        options.say(f"try it: sleipnir chat {reference}\nthen edit {directory}/config.yaml")
    else:
        options.say(
            f"try it: sleipnir run {reference} 'hello there'\nthen edit {directory}/graph.yaml"
        )


def _trust(options: Options, directory: Path) -> None:
    """Let the agent go by its name even if another agent has it too."""
    try:
        trusted_agents.trust(directory)
    except (OSError, SleipnirError) as error:
        options.say(f"warning: not added to the list of trusted agents: {error}")


def _to_copy(options: Options, reference: str) -> Path:
    """Return the directory of the agent to copy."""
    template = click.get_current_context().get_parameter_source("template")
    if template is ParameterSource.COMMANDLINE:
        raise click.UsageError("give either --template or --from")
    return search_of(options).find(reference)


def _copies(source: Path, directory: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield the files of an agent, with its own name replaced by the copy's.

    Of links to what is not beside the copy, only the text is kept.
    """
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        place = file.relative_to(source)
        if _NOT_COPIED.isdisjoint(place.parts):
            content = file.read_bytes()
            if file.suffix == ".yaml" and (file.parent == source or place.parts[0] == "tests"):
                content = _renamed(content.decode(), source.name, directory.name).encode()
            elif file.suffix == ".md" and file.parent == source:
                content = _unlinked(content.decode(errors="surrogateescape"), directory)
            yield place, content


def _unlinked(text: str, directory: Path) -> bytes:
    def kept(link: re.Match[str]) -> str:
        return link[0] if (directory / link[2]).exists() else link[1]

    return _LINK.sub(kept, text).encode(errors="surrogateescape")


def _renamed(text: str, old: str, new: str) -> str:
    """Replace the `name` of an agent, and the keys of its tests that refer to it."""
    text = re.sub(rf"(?m)^name: {re.escape(old)}$", f"name: {new}", text)
    return re.sub(rf"(?<![\w-]){re.escape(old)}(?=: )", new, text)


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


def _files(template: str, name: str) -> Iterator[tuple[Path, bytes]]:
    """Yield relative path and content of each file of the new agent."""
    source = _TEMPLATES / template
    for file in sorted(path for path in source.rglob("*") if path.suffix in _COPIED):
        data = file.read_bytes().replace(_PLACEHOLDER.encode(), name.encode())
        place = file.relative_to(source)
        if (kind := kind_of(place)) is not None:
            schema_file = f"{kind}.schema.json"
            reference = "../" * (len(place.parts) - 1) + schema_file
            data = f"{modeline(reference)}\n".encode() + data
            yield Path(schema_file), schema_text(kind).encode()
        yield place, data
