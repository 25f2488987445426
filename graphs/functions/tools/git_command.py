"""Runs git."""

# @meta require-tools git

import os
import re
import shlex
import subprocess
from pathlib import Path

from sleipnir.programs import argument
from sleipnir.tool import guard

from sleipnir import git, read_only

# They would do nothing here, as no shell reads them; the model should know.
REFUSED = re.compile(r"[;&|<>$`()\n]")
QUOTED = re.compile(r"'[^']*'")
# Nothing may wait for somebody at a terminal.
QUIET = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS": "true",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_PAGER": "cat",
}


def run(command: str) -> str:
    """Run one git command in the working directory and return what it prints.

    A command that only looks runs no program that the repository names. No shell reads the
    command: characters such as `;`, `|`, `$` and `>` are refused outside single quotes.

    Args:
        command: The command, such as `git status --short` or `commit -m 'Fix the door'`.
    """
    arguments = _arguments(argument(command))
    guard(f"run this command?\ngit {shlex.join(arguments)}")
    ended = _look(arguments) if read_only.only_looks(arguments) else _run(arguments)
    text = ended.stdout.decode("utf-8", errors="replace")
    if ended.returncode != 0:
        print(text, end="")
        raise SystemExit(f"git ended with exit status {ended.returncode}")
    return text


def _look(arguments: list) -> subprocess.CompletedProcess:
    ended = git.look(arguments, Path.cwd())
    ended.stdout += ended.stderr
    return ended


def _run(arguments: list) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["git", "--no-pager", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"GIT_SSH_COMMAND": "ssh -oBatchMode=yes", **os.environ, **QUIET},
        check=False,
    )


def _arguments(command: str) -> list:
    refused = REFUSED.search(QUOTED.sub("", command.strip()))
    if refused:
        raise SystemExit(f"{refused.group()!r} may only stand in single quotes; nothing was run")
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise SystemExit(f"cannot read the command: {error}; nothing was run") from error
    if arguments[:1] == ["git"]:
        del arguments[0]
    # Options in front of the command can make git run other programs.
    if not arguments or arguments[0].startswith("-"):
        raise SystemExit("expected a git command, such as 'status', without options before it")
    return arguments
