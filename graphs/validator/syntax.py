"""Finds syntax errors of Python and bash programs, which are not run."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path

from sleipnir.graphs.files import MIB, read_bytes
from sleipnir.records import dataclass

_CHECK_LIMIT_S = 5
_BASH_ERROR = re.compile(r".*?: line (\d+): (?:syntax error:? )?(.*)")
_MOST_SHOWN = 80  # characters of the line
# Only compiles: `python3` may be newer than this Python, whose verdict it confirms.
_COMPILES = "import sys; compile(sys.stdin.buffer.read(), 'script', 'exec')"


@dataclass(frozen=True, slots=True)
class SyntaxFault:
    """Why a program could not even start."""

    reason: str
    line: int
    written: str  # the line


def syntax_fault(
    file: Path, find_program: Callable[[str], str | None] | None
) -> SyntaxFault | None:
    """Return the syntax error of a Python or bash program, which is not run.

    Args:
        find_program: finds what checks it on this machine; None: nothing is started.
    """
    match file.suffix.lower():
        case ".py":
            fault = _python_fault(_bytes(file))
            python = find_program("python3") if fault and find_program else None
            return None if python and _compiles(python, file) else fault
        case ".sh":
            bash = find_program("bash") if find_program else None
            return _bash_fault(bash, file) if bash else None
        case _:
            return None


def _python_fault(source: bytes) -> SyntaxFault | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source)
    except SyntaxError as error:
        return _fault(source, error.msg, error.lineno or 1)
    except ValueError as error:  # raised for a NUL by some versions of Python
        return _fault(source, str(error), 1)
    except (RecursionError, MemoryError):  # nested too deeply to tell
        return None
    return None


def _compiles(python: str, file: Path) -> bool:
    return _checked([python, "-I", "-c", _COMPILES], _bytes(file)) == ""


def _bash_fault(bash: str, file: Path) -> SyntaxFault | None:
    source = _bytes(file)
    told = _checked([bash, "--noprofile", "--norc", "-n", "/dev/stdin"], source) or ""
    found = _BASH_ERROR.match(told)
    return _fault(source, found[2], int(found[1])) if found else None


def _fault(source: bytes, reason: str, line: int) -> SyntaxFault:
    lines = source.decode(errors="replace").split("\n")
    written = "".join(lines[line - 1 : line]).strip()
    return SyntaxFault(f"syntax error: {reason}", line, written[:_MOST_SHOWN])


def _checked(command: list[str], source: bytes) -> str | None:
    """Return what a checker says about a source; None if it cannot tell."""
    try:
        done = subprocess.run(
            command,
            input=source,
            capture_output=True,
            timeout=_CHECK_LIMIT_S,
            check=False,
            env={"PATH": os.defpath, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stderr.decode(errors="replace") if done.returncode else ""


def _bytes(file: Path) -> bytes:
    try:
        return read_bytes(file, MIB)
    except (OSError, ValueError):  # reported by the rules about files
        return b""
