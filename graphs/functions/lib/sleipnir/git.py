"""Runs git commands that only look at a repository, so that no program of its choice runs.

A repository's own configuration may name programs for hooks, filters, diffs, signatures, monitors
and transports. It belongs to whoever made the checkout, so all of them are off, and so is the
configuration of the user and the system.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

# What commands that show differences take beside the configuration; a submodule has a
# configuration of its own, which the settings below do not reach.
_NO_PROGRAMS = ("--no-ext-diff", "--no-textconv")
_NO_SUBMODULES = "--ignore-submodules=all"
_FLAGS = {
    "blame": ("--no-textconv",),
    "diff": (*_NO_PROGRAMS, _NO_SUBMODULES),
    "diff-tree": (*_NO_PROGRAMS, _NO_SUBMODULES),
    "log": (*_NO_PROGRAMS, _NO_SUBMODULES),
    "show": (*_NO_PROGRAMS, _NO_SUBMODULES),
    "status": (_NO_SUBMODULES,),
}
_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.attributesFile": os.devnull,
    "core.pager": "cat",
    "core.quotePath": "false",
    "diff.relative": "false",
    "diff.submodule": "short",
    "gpg.program": "false",
    "gpg.openpgp.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "log.showSignature": "false",
    "protocol.allow": "never",
    "safe.bareRepository": "explicit",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
}
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}
_FILTER = re.compile(r"filter\.(.+)\.(?:clean|smudge|process|required)", re.DOTALL)


def look(arguments: Sequence[str], directory: Path) -> subprocess.CompletedProcess[bytes]:
    """Run a git command that only looks; stdout and stderr are captured.

    Args:
        arguments: the command and what follows it.
    """
    verb, *rest = arguments
    return subprocess.run(
        ["git", "--no-pager", verb, *_FLAGS.get(verb, ()), *rest],
        cwd=directory,
        env=environment(directory),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )


def environment(directory: Path) -> dict[str, str]:
    """Return the environment in which git looks at the repository of a directory."""
    plain = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    safe = {**plain, **_ENVIRONMENT}
    settings = dict(_SETTINGS)
    for name in _filters(directory, {**safe, **_as_variables(settings)}):
        settings.update({f"filter.{name}.{kind}": "" for kind in ("clean", "smudge", "process")})
        settings[f"filter.{name}.required"] = "false"
    return {**safe, **_as_variables(settings)}


def shell_function() -> str:
    """Return a bash function `git` that adds what `look` adds, for command lines that only look."""
    cases = " ".join(
        f'{verb}) set -- {verb} {" ".join(flags)} "${{@:2}}";;' for verb, flags in _FLAGS.items()
    )
    return f'git() {{ case "$1" in {cases} esac; command git --no-pager "$@"; }}'


def _filters(directory: Path, environment: dict[str, str]) -> set[str]:
    """Return the names of the filters that the repository configures."""
    listed = subprocess.run(
        ["git", "config", "--list", "--name-only", "-z"],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    keys = listed.stdout.decode("utf-8", errors="surrogateescape").split("\0")
    return {found[1] for key in keys if (found := _FILTER.fullmatch(key))}


def _as_variables(settings: dict[str, str]) -> dict[str, str]:
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return variables
