"""The command line: a table of verbs, whose modules are loaded when called.

Only click and the standard library are imported here, so that `sleipnir --help` and shell
completion
respond at once.
"""

from __future__ import annotations

import gc
import importlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.endings import (
    die_by_signal,
    end_on_broken_pipe,
    exit_fast,
    install_signal_handlers,
)
from sleipnir.scheduler.cli.options import engine_options
from sleipnir.scheduler.errors import Terminated
from sleipnir.scheduler.process.telemetry.environment import leave_out_unused
from sleipnir.scheduler.views.text.terminal_output import protect_terminals

with lazy_imports():
    from sleipnir.scheduler.cli import exit_codes
    from sleipnir.scheduler.cli.help import examples

# Allocations before the first garbage collection.
_GARBAGE = 50_000

VERBS: Mapping[str, tuple[str, str]] = {
    "run": ("sleipnir.scheduler.cli.verbs.run:run", "Run an agent and wait for its result."),
    "chat": ("sleipnir.scheduler.cli.verbs.chat:chat", "Talk to an agent."),
    "submit": ("sleipnir.scheduler.cli.verbs.submit:submit", "Submit a run and print its id."),
    "batch": (
        "sleipnir.scheduler.cli.verbs.batch:batch",
        "Run an agent for each line of a file; resumable.",
    ),
    "batches": (
        "sleipnir.scheduler.cli.verbs.batches:batches",
        "List batches with their progress.",
    ),
    "stats": (
        "sleipnir.scheduler.cli.verbs.stats:stats",
        "Show how runs ended, how long they took and what they cost.",
    ),
    "spend": (
        "sleipnir.scheduler.cli.verbs.spend:spend",
        "Show what model calls have cost.",
    ),
    "dev": (
        "sleipnir.scheduler.cli.verbs.dev:dev",
        "Run an agent again whenever its files are saved.",
    ),
    "schedule": (
        "sleipnir.scheduler.cli.verbs.schedule:schedule",
        "Start runs at instants: by cron lines, or at intervals.",
    ),
    "hook": (
        "sleipnir.scheduler.cli.verbs.hook:hook",
        "Send events of runs to other systems: webhooks.",
    ),
    "ps": ("sleipnir.scheduler.cli.verbs.ps:ps", "List runs."),
    "find": (
        "sleipnir.scheduler.cli.verbs.find:find",
        "List agents, batches, labels, limits and runs by a part of their name.",
    ),
    "sessions": (
        "sleipnir.scheduler.cli.verbs.sessions:sessions",
        "List sessions of normal agents, or remove one.",
    ),
    "show": (
        "sleipnir.scheduler.cli.verbs.show:show",
        "Show a run: nodes, timings, usage, error, question.",
    ),
    "watch": ("sleipnir.scheduler.cli.verbs.watch:watch", "Follow a run's narration to its end."),
    "logs": (
        "sleipnir.scheduler.cli.verbs.logs:logs",
        "Print what a run's scripts and tools printed.",
    ),
    "state": (
        "sleipnir.scheduler.cli.verbs.state:state",
        "Print a run's state as JSON, now or after a step.",
    ),
    "inbox": (
        "sleipnir.scheduler.cli.verbs.inbox:inbox",
        "List open questions.",
    ),
    "answer": ("sleipnir.scheduler.cli.verbs.answer:answer", "Answer a run's question."),
    "answer-link": (
        "sleipnir.scheduler.cli.verbs.answer_link:answer_link",
        "Make a link to answer a question with.",
    ),
    "cancel": ("sleipnir.scheduler.cli.verbs.cancel:cancel", "Cancel runs and their child runs."),
    "retry": (
        "sleipnir.scheduler.cli.verbs.retry:retry",
        "Continue unsuccessful runs where they stopped.",
    ),
    "drain": (
        "sleipnir.scheduler.cli.verbs.drain:drain",
        "Have workers finish their nodes, and end.",
    ),
    "move": ("sleipnir.scheduler.cli.verbs.move:move", "Take runs to another machine."),
    "fork": (
        "sleipnir.scheduler.cli.verbs.fork:fork",
        "Start a new run from a step of another one.",
    ),
    "diff": ("sleipnir.scheduler.cli.verbs.diff:diff", "Compare two runs."),
    "limits": (
        "sleipnir.scheduler.cli.verbs.limits:limits",
        "Show or change limits and budgets of model calls.",
    ),
    "validate": (
        "sleipnir.scheduler.cli.verbs.validate:validate",
        "Check agents for errors and warnings.",
    ),
    "plan": (
        "sleipnir.worker.cli.plan:plan",
        "Say what runs will do and cost, without running them.",
    ),
    "draw": (
        "sleipnir.scheduler.cli.verbs.draw:draw",
        "Draw an agent's graph, or a run's progress.",
    ),
    "agents": ("sleipnir.scheduler.cli.verbs.agents:agents", "List agents, or show one."),
    "kb": ("sleipnir.worker.cli.kb:kb", "Build, search, show and remove knowledge bases."),
    "tools": ("sleipnir.worker.cli.tools:tools", "List an agent's functions, or call one."),
    "init": ("sleipnir.scheduler.cli.verbs.init:init", "Create an agent from a template."),
    "import": (
        "sleipnir.scheduler.cli.verbs.import_:import_",
        "Import agents of Loki or Coyote, or runs of another Redis.",
    ),
    "export": (
        "sleipnir.scheduler.cli.verbs.export:export",
        "Write finished runs into files, for another Redis.",
    ),
    "schema": (
        "sleipnir.scheduler.cli.verbs.schema:schema",
        "Print the JSON Schema of graph.yaml.",
    ),
    "eval": (
        "sleipnir.scheduler.cli.verbs.eval:eval_",
        "Score an agent on labelled rows, and compare versions.",
    ),
    "test": ("sleipnir.scheduler.cli.verbs.test:test", "Run an agent's test cases."),
    "worker": ("sleipnir.scheduler.cli.verbs.worker:worker", "Run worker processes for a Redis."),
    "scheduler": (
        "sleipnir.scheduler.cli.verbs.scheduler:scheduler",
        "Run a scheduler for a Redis.",
    ),
    "up": ("sleipnir.scheduler.cli.verbs.up:up", "Run the whole engine in the foreground."),
    "mcp": ("sleipnir.worker.cli.mcp_serve:mcp", "Serve agents to MCP clients."),
    "monitor": ("sleipnir.scheduler.cli.verbs.monitor:monitor", "Start the monitor."),
    "bench": (
        "sleipnir.worker.bench.command:bench",
        "Benchmark nodes against bare Celery.",
    ),
    "prune": (
        "sleipnir.scheduler.cli.verbs.prune:prune",
        "Remove finished runs before their retention ends.",
    ),
    "archive": (
        "sleipnir.scheduler.cli.verbs.archive:archive",
        "Look at the archive of finished runs.",
    ),
    "doctor": ("sleipnir.scheduler.cli.verbs.doctor:doctor", "Check this installation."),
    "trigger": ("sleipnir.scheduler.cli.verbs.trigger:trigger", "Let other systems start runs."),
    "health": (
        "sleipnir.scheduler.cli.verbs.health:health",
        "Ask a worker, scheduler or monitor whether it is well.",
    ),
    "help": ("sleipnir.scheduler.cli.verbs.help:help_", "Show the help of a verb."),
    "completion": (
        "sleipnir.scheduler.cli.verbs.completion:completion",
        "Print a completion script for a shell.",
    ),
}
# The groups of verbs by purpose; each verb is in one of them.
GROUPS: Mapping[str, Sequence[str]] = {
    "Run an agent": ("run", "chat", "submit", "batch", "schedule"),
    "Inspect runs": ("ps", "find", "batches", "sessions", "show", "watch", "logs", "state"),
    "Answer and cancel": ("inbox", "answer", "answer-link", "cancel"),
    "Retry and compare": ("retry", "fork", "move", "diff"),
    "Develop agents": (
        *("dev", "validate", "plan", "test", "eval", "draw", "agents"),
        *("kb", "tools", "init", "import", "schema"),
    ),
    "Operate": (
        *("up", "worker", "drain", "scheduler", "limits", "spend", "stats"),
        *("monitor", "mcp", "hook", "trigger", "health"),
        *("archive", "export", "prune", "doctor", "bench"),
    ),
    "Get help": ("help", "completion"),
}
_HELP_FLAGS = ("-h", "--help")
# Names from other tools that are too different to be found as misspellings.
_OTHER_NAMES: Mapping[str, str] = {
    "attach": "watch",
    "check": "validate",
    "create": "init",
    "cron": "schedule",
    "schedules": "schedule",
    "clean": "prune",
    "delete": "prune",
    "exec": "run",
    "webhook": "hook",
    "hooks": "hook",
    "follow": "watch",
    "history": "state",
    "inspect": "show",
    "kill": "cancel",
    "list": "ps",
    "lint": "validate",
    "ls": "ps",
    "migrate": "import",
    "new": "init",
    "questions": "inbox",
    "reply": "answer",
    "resume": "retry",
    "rm": "prune",
    "serve": "up",
    "start": "run",
    "status": "ps",
    "stop": "cancel",
    "ui": "monitor",
    "tail": "logs",
}
# What options of Loki and Coyote, which has no verbs, are here.
OTHER_OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(("-a", "--agent"), "sleipnir run NAME"),
    **dict.fromkeys(("-s", "--session"), "sleipnir run --session NAME AGENT"),
    **dict.fromkeys(("-f", "--file"), "sleipnir run -f PATH AGENT"),
    **dict.fromkeys(("-m", "--model"), "SLEIPNIR_MODEL in the environment"),
    "--agent-variable": "sleipnir run --var NAME=VALUE AGENT",
    "--list-agents": "sleipnir agents",
    "--list-sessions": "sleipnir sessions",
    "--list-rags": "sleipnir kb info AGENT",
    "--info": "sleipnir doctor",
    "--install": "sleipnir agents",
    "--install-builtins": "sleipnir agents",
    "--dry-run": "sleipnir validate AGENT",
}


class _Verbs(click.Group):
    """The commands of `VERBS`; listing them imports none of them."""

    # Around both, because click turns a broken pipe into exit code 1.

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with end_on_broken_pipe():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with end_on_broken_pipe():
            return super().invoke(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        option = args[0].partition("=")[0] if args else ""
        if not ctx.resilient_parsing and (ours := OTHER_OPTIONS.get(option)):
            raise click.UsageError(f"no option '{option}'; here it is `{ours}`", ctx)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, _, name = VERBS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not (ctx.resilient_parsing or name in VERBS or name.startswith("-")):
            if other := _OTHER_NAMES.get(name):
                raise click.UsageError(f"no such command '{name}'; did you mean '{other}'?", ctx)
            raise click.NoSuchCommand(name, possibilities=VERBS, ctx=ctx)
        found = super().resolve_command(ctx, args)
        if found[1] is not None and any(flag in args for flag in _HELP_FLAGS):
            examples.add_to(found[1], name)
        return found

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # Click's own would load every verb to get its help line.
        verbs = (verb for verb in VERBS if verb.startswith(incomplete))
        flags = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(verb, help=VERBS[verb][1]) for verb in verbs), *flags]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, VERBS))
        for title, verbs in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(verb.ljust(width), VERBS[verb][1]) for verb in verbs])


@click.group(
    cls=_Verbs,
    subcommand_metavar="VERB [ARGS]...",
    context_settings={"help_option_names": [*_HELP_FLAGS]},
)
@engine_options
def cli(**_: object) -> None:
    """Run graph agents, durably.

    `sleipnir help VERB` shows the options of a verb, and examples.
    """


def main() -> None:
    """Run the `sleipnir` command."""
    # Imported modules stay alive, and most commands end before they have produced garbage.
    gc.set_threshold(_GARBAGE)
    leave_out_unused()
    _have_standard_streams()
    # Texts may contain characters that the terminal, or UTF-8, cannot represent.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    protect_terminals()
    install_signal_handlers()
    try:
        with end_on_broken_pipe():
            code = _written(_call())
    except Terminated as ended:
        die_by_signal(ended.number)
    exit_fast(code)


def _call() -> int:
    """Run the command line; return the exit code."""
    try:
        # Verbs report their own errors; the rest are click's usage errors.
        return int(cli.main(prog_name="sleipnir", standalone_mode=False) or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        # The flags could not be parsed, not even --json.
        return exit_codes.report(error, json="--json" in sys.argv)
    except click.Abort:
        return exit_codes.ExitCode.INTERRUPTED
    except SystemExit as ended:  # raised by click for completions
        return int(ended.code or 0)
    except BrokenPipeError:
        raise
    except OSError as error:  # a help page that cannot be written
        return exit_codes.report(error, json="--json" in sys.argv)


def _written(code: int) -> int:
    """Write what is left to be written; returns the exit code."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:  # the disk is full
        if code == exit_codes.ExitCode.SUCCEEDED:  # else it has been reported
            return exit_codes.report(error, json="--json" in sys.argv)
    return code


def _have_standard_streams() -> None:
    """Open missing standard streams, so that no other file takes their descriptors."""
    # In this order: each gets the lowest free descriptor, which is the missing one.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(nowhere, mode, encoding="utf-8"))
