"""The `sleipnir` command as users call it: a process of its own, in a project directory."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import click

from sleipnir.scheduler.embedded.supervisor import die_with_parent
from tests.support.forked_command import call_in_fork
from tests.support.wait import wait_until

TIME_LIMIT_S = 200  # for what hangs: a busy machine may take a minute for a benchmark
COMMAND = (sys.executable, "-m", "sleipnir")


class Sleipnir:
    """Calls the command with its own settings and data, below one directory."""

    def __init__(self, directory: Path, **environment: str) -> None:
        self.project = directory / "project"
        self.project.mkdir(parents=True)
        own = {name: text for name, text in os.environ.items() if not name.startswith("SLEIPNIR_")}
        self.environment = {
            **own,
            "SLEIPNIR_DATA_DIR": str(directory / "data"),
            "SLEIPNIR_CONFIG_DIR": str(directory / "config"),
            # The project's directory must not hide our packages.
            "PYTHONPATH": str(Path(__file__).parents[2]),
            **environment,
        }

    def write(self, name: str, graph: str, files: Mapping[str, str] | None = None) -> Path:
        """Write an agent of the project; its scripts are executable."""
        directory = self.project / "agents" / name
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "graph.yaml").write_text(f"name: {name}\n{dedent(graph)}")
        for path, text in (files or {}).items():
            (directory / path).write_text(dedent(text))
            (directory / path).chmod(0o755)
        return directory

    def __call__(
        self, *arguments: str, stdin: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Call the command without a terminal, and wait until it exits.

        Python is not started anew: see `forked_command`. Where that matters, use `start`.
        """
        environment = {**self.environment, **environment}
        return call_in_fork(arguments, self.project, environment, stdin, TIME_LIMIT_S)

    def type_in(self, commands: str, directory: Path) -> subprocess.CompletedProcess[str]:
        """Have a shell execute a page's commands until one fails; output includes stderr."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{self.environment['PATH']}"
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=directory,
            env={**self.environment, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )

    def json(self, *arguments: str) -> Any:
        """Return the JSON document that a call prints."""
        return json.loads(self(*arguments, "--json").stdout)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the command without waiting for it."""
        return subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
            preexec_fn=die_with_parent(signal.SIGKILL),
        )

    @contextlib.contextmanager
    def up(self, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
        """Keep an engine running during the block; its log is in `up.log`.

        Args:
            flags: of the monitor; without any there is none.
        """
        log = self.project.parent / "up.log"
        with log.open("wb") as output:
            engine = subprocess.Popen(
                [*COMMAND, "up", *(flags or ("--no-monitor",))],
                cwd=self.project,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
                preexec_fn=die_with_parent(signal.SIGTERM),
            )
        wait_until(lambda: "engine is up" in log.read_text(), "the engine is up", TIME_LIMIT_S)
        try:
            yield engine
        finally:
            engine.send_signal(signal.SIGTERM)
            engine.wait(TIME_LIMIT_S)

    def on_terminal(self, *arguments: str, **environment: str) -> Terminal:
        """Call the command on a terminal on which the test types."""
        return Terminal([*COMMAND, *arguments], self.project, {**self.environment, **environment})

    def on_terminal_as_written(self, line: str, **environment: str) -> Terminal:
        """Call a command line from a page on a terminal."""
        name, *arguments = shlex.split(line)
        assert name == "sleipnir"
        return self.on_terminal(*arguments, **environment)


def take(context: click.Context, command: click.Command | None, words: list[str]) -> None:
    """Parse words as a command's arguments, up to a shell operator."""
    assert command is not None
    ours = words[: next((n for n, word in enumerate(words) if word in ("<", ">", "|")), None)]
    is_called_itself = isinstance(command, click.Group) and command.invoke_without_command
    if isinstance(command, click.Group) and not (is_called_itself and ours[0].startswith("-")):
        inner = click.Context(command, context, command.name)
        _, part, rest = command.resolve_command(inner, ours)
        take(inner, part, rest)
    else:
        command.make_context(command.name, ours, context)


class Terminal:
    """A command with a terminal as standard input and error; its output is a pipe.

    Args:
        whole: its output is the terminal too.
    """

    def __init__(
        self,
        command: list[str],
        directory: Path,
        environment: Mapping[str, str],
        *,
        whole: bool = False,
    ) -> None:
        ours, its = pty.openpty()
        self._ours = ours
        os.set_blocking(ours, False)
        self.before = ""  # what was shown last, up to the text that was waited for
        self.shown = ""
        self._process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=its,
            stdout=its if whole else subprocess.PIPE,
            stderr=its,
            text=True,
            preexec_fn=die_with_parent(signal.SIGKILL),
        )
        os.close(its)

    def wait_for(self, text: str) -> None:
        """Wait until the screen shows a text that it had not shown at the last call."""
        end = wait_until(lambda: self._find(text), f"{text!r} in {self.shown!r}", TIME_LIMIT_S)
        self.before, self.shown = self.shown[:end], self.shown[end:]

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def end(self) -> tuple[int, str]:
        """Wait until the command exits; return its exit code and standard output."""
        output, _ = self._process.communicate(timeout=TIME_LIMIT_S)
        os.close(self._ours)
        return self._process.returncode, output

    def _find(self, text: str) -> int:
        with contextlib.suppress(OSError):  # nothing to read yet, or the other end is closed
            self.shown += os.read(self._ours, 65536).decode()
        place = self.shown.find(text)
        return 0 if place < 0 else place + len(text)
