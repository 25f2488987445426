"""Runs git."""

# @meta require-tools git

import os
import re
import shlex
import subprocess

from sleipnir.programs import argument
from sleipnir.tool import guard

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

    No shell reads the command: characters such as `;`, `|`, `$` and `>` are refused outside
    single quotes.

    Args:
        command: The command, such as `git status --short` or `commit -m 'Fix the door'`.
    """
    arguments = _arguments(argument(command))
    guard(f"run this command?\ngit {shlex.join(arguments)}")
    ended = subprocess.run(
        ["git", "--no-pager", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"GIT_SSH_COMMAND": "ssh -oBatchMode=yes", **os.environ, **QUIET},
        check=False,
    )
    text = ended.stdout.decode("utf-8", errors="replace")
    if ended.returncode != 0:
        print(text, end="")
        raise SystemExit(f"git ended with exit status {ended.returncode}")
    return text


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
