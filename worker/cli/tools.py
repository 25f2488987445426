"""`sleipnir tools`: lists an agent's functions, and calls them without an engine."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from sleipnir.graphs.errors import InvalidAgent
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.cli.arguments import (
    complete_agents,
    pairs,
    piped_text,
    variables_option,
)
from sleipnir.scheduler.cli.connect import search_of, settings_of
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.terminal import is_terminal, read_line, show, typed_so_far
from sleipnir.scheduler.views.text.terminal_output import printable

with lazy_imports():
    from sleipnir.graphs.document import loader
    from sleipnir.scheduler.cli import prompts, submission
    from sleipnir.scheduler.runs import submit
    from sleipnir.worker.cli import arguments as call_arguments
    from sleipnir.worker.cli import tool_list
    from sleipnir.worker.tools import manual_call

if TYPE_CHECKING:
    from sleipnir.graphs.tools.function import Function
    from sleipnir.worker.cli.tool_list import AnyFunction
    from sleipnir.worker.mcp.functions import McpFunction
    from sleipnir.worker.tools.manual_call import Workbench


@dataclass(frozen=True, slots=True)
class _Call:
    """The function to call, and how."""

    name: str
    arguments: Sequence[tuple[str, str]]
    whole: str | None
    variables: Sequence[tuple[str, str]]
    workdir: Path
    yes: bool


class _Unanswered(Exception):
    """A guarded function asked a question, and there is no terminal."""


@click.command
@click.argument("agent", required=False, shell_complete=complete_agents)
@click.argument("name", required=False)
@click.option("--global", "of_all", is_flag=True, help="The global tools, without an AGENT.")
@click.option("--mcp", is_flag=True, help="List functions of MCP servers too; starts them.")
@click.option(
    "--arg",
    "arguments",
    callback=pairs,
    metavar="NAME=VALUE",
    multiple=True,
    help="Argument; VALUE is JSON, or plain text for a string.",
)
@click.option("--json-args", "whole", metavar="JSON", help="All arguments; `-`: standard input.")
@variables_option
@click.option(
    "--workdir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="Working directory. Default: the current directory.",
)
@click.option("--yes", is_flag=True, help="Call guarded functions without asking.")
@common_options(json=True)
def tools(
    options: Options,
    agent: str | None,
    name: str | None,
    of_all: bool,
    mcp: bool,
    **call: Any,
) -> ExitCode:
    """List the functions of AGENT's tools, or call the one of that NAME as a run would.

    The result goes to standard output, what the function prints to standard error. Exits with 1
    if the call fails, and with 4 if it requires confirmation and nobody can be asked. It needs no
    engine.
    """
    agent, name = _named(agent, name, of_all)
    call["workdir"] = call["workdir"].absolute()
    with _workbench(options, agent) as bench:
        if name is None:
            return _list(options, bench, call["workdir"], mcp=mcp)
        if call["whole"] == "-":
            call["whole"] = piped_text()
        try:
            return _run(options, bench, _Call(name, **call))
        except _Unanswered as asked:
            click.echo(f"{name} asks: {printable(str(asked))}\n--yes allows it", err=True)
            return ExitCode.WAITING


def _named(agent: str | None, name: str | None, of_all: bool) -> tuple[str | None, str | None]:
    """Return the agent and the function; with --global, the function is the first argument."""
    if not of_all:
        if agent is None:
            raise click.UsageError("give AGENT, or --global for the global tools")
        return agent, name
    if name is not None:
        raise click.UsageError("--global replaces AGENT; give only the NAME of a function")
    return None, agent


@contextmanager
def _workbench(options: Options, reference: str | None) -> Iterator[Workbench]:
    settings = settings_of(options)
    search = search_of(options)
    if reference is None:
        with manual_call.global_tools(settings, search) as bench:
            yield bench
        return
    agent = loader.load_agent(search.find(reference), os.environ)
    if agent.graph is None and agent.normal is None:
        raise InvalidAgent(agent.findings)
    yield manual_call.Workbench(agent, settings, search)


# ---- list


def _list(options: Options, bench: Workbench, workdir: Path, *, mcp: bool) -> ExitCode:
    functions: list[AnyFunction] = [*bench.toolbox().functions]
    servers = bench.agent.mcp_servers
    if mcp and servers:
        functions += _of_servers(options, bench, workdir, [function.name for function in functions])
    if options.json:
        declarations = [function.declaration() for function in functions]
        click.echo(json.dumps(declarations, ensure_ascii=False))
    else:
        for place, function in enumerate(functions):
            click.echo("\n" * bool(place) + "\n".join(tool_list.lines_of(function)))
    if servers and not mcp:
        options.say(f"MCP servers, which --mcp starts and asks: {', '.join(servers)}")
    if not functions:
        options.say("no functions")
    errors = bench.errors()
    for finding in errors:
        click.echo(str(finding), err=True)
    return ExitCode.INVALID if errors else ExitCode.SUCCEEDED


def _of_servers(
    options: Options, bench: Workbench, workdir: Path, taken: Sequence[str]
) -> Sequence[McpFunction]:
    with bench.servers(workdir) as servers:
        resolved = servers.resolve(taken=taken)
    for warning in resolved.warnings:
        options.say(f"warning: {printable(warning)}")
    return resolved.functions


# ---- call


def _run(options: Options, bench: Workbench, call: _Call) -> ExitCode:
    # A signal that stops this process must also stop the function's, which is in its own group.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    functions = {function.name: function for function in bench.toolbox().functions}
    if call.name in functions:
        value = _value_of_file(options, bench, functions[call.name], call)
    elif bench.agent.mcp_servers:
        value = _value_of_server(bench, call, list(functions))
    else:
        _unknown(call.name, list(functions))
    _print(options, value)
    return ExitCode.FAILED if _is_failure(value) else ExitCode.SUCCEEDED


def _value_of_file(options: Options, bench: Workbench, function: Function, call: _Call) -> Any:
    agent = bench.agent
    described = agent.graph or agent.normal
    assert described is not None
    arguments = call_arguments.read_arguments(
        function.parameters, call.arguments, call.whole, function.bash
    )
    variables = submission.variable_values(
        agent.name, described.variables, call.variables, asks=is_terminal()
    )
    submit.require_declared(agent.name, described.variables, variables)
    with bench.calls(variables, call.workdir) as calls:
        return calls.call(
            call.name,
            arguments,
            consents=None if call.yes else _consents,
            narrate=lambda line: options.say(printable(line)),
            log=lambda _stream, text: click.echo(printable(text), err=True),
        )


def _value_of_server(bench: Workbench, call: _Call, others: Sequence[str]) -> Any:
    with bench.servers(call.workdir) as servers:
        resolved = servers.resolve((), [call.name])
        if not resolved.functions:
            _unknown(call.name, others, resolved.warnings)
        (function,) = resolved.functions
        return function.call(
            call_arguments.read_arguments(function.parameters, call.arguments, call.whole)
        )


def _is_failure(value: Any) -> bool:
    """Return whether there is no result, or an MCP tool reports it as an error."""
    return isinstance(value, dict) and ("tool_call_error" in value or value.get("isError") is True)


def _unknown(name: str, others: Sequence[str], reasons: Sequence[str] = ()) -> NoReturn:
    near = get_close_matches(name, others)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    because = "".join(f"\n{printable(reason)}" for reason in reasons)
    raise click.UsageError(f"there is no function '{name}'{hint}{because}")


def _consents(question: str) -> bool:
    """Ask the person at the terminal for consent."""
    if not is_terminal():
        raise _Unanswered(question)
    if early := typed_so_far():
        prompts.ignore_early(early)
    show(f"? {question}\n")
    return prompts.ask_for_consent(show, read_line) == "yes"


def _print(options: Options, value: Any) -> None:
    if options.json:
        click.echo(json.dumps(value, ensure_ascii=False))
        return
    if isinstance(value, dict) and "tool_call_error" in value:
        click.echo(f"error: {printable(value['tool_call_error'])}", err=True)
        value = {"output": value["output"]} if "output" in value else ""
    if isinstance(value, dict) and value.keys() == {"output"}:
        value = value["output"]
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    if text:
        click.echo(text, nl=not text.endswith("\n"))
