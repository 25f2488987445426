"""Searches code by its structure."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from sleipnir.programs import argument

from sleipnir import files

MAX_LINES = 100
MAX_BYTES = 32 * 1024
NOT_INSTALLED = (
    "ast-grep is not installed on this machine (pip install 'sleipnir[ast]', or ast-grep-cli). "
    "Use fs_grep with a regular expression instead"
)


def run(pattern: str, lang: str = "", path: str = ".", glob: str = "") -> str:
    """Search code by its structure: `$NAME` stands for any node, `$$$NAME` for any number of them.

    Args:
        pattern: Code with such names, as in `print($A)` or `if $COND { $$$BODY }`.
        lang: The language, such as python, rust, typescript. Default: by the names of the files.
        path: The file or directory to search. Default: the working directory.
        glob: Only files that match this glob, such as `*.py` or `!**/tests/**`.
    """
    program = _program()
    top = files.to_read(path)
    if not top.exists():
        raise SystemExit(f"there is no file or directory {path}")
    command = [program, "run", f"--pattern={pattern}", "--color=never", "--heading=never"]
    command += [f"--lang={lang}"] if lang else []
    command += [f"--globs={glob}"] if glob else []
    output, said, status = _output([*map(argument, command), "--", str(top)])
    if status not in (0, 1) or (status == 1 and said):
        raise SystemExit(f"ast-grep: {said or f'exit status {status}'}")
    return _shown(output) or f"Nothing matches {pattern}"


def _output(command: list) -> tuple:
    """The beginning of what it prints, what it complains of, and how it ended."""
    with tempfile.TemporaryFile() as complaints:
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints
        ) as process:
            output = process.stdout.read(MAX_BYTES + 1)
            if len(output) > MAX_BYTES:
                process.kill()
                return output, "", 0
        complaints.seek(0)
        said = complaints.read(MAX_BYTES).decode("utf-8", errors="replace").strip()
    return output, said, process.returncode


def _program() -> str:
    beside = Path(sys.executable).with_name("ast-grep")
    found = shutil.which("ast-grep") or (str(beside) if beside.exists() else None)
    if found is None:
        raise SystemExit(NOT_INSTALLED)
    return found


def _shown(output: bytes) -> str:
    lines = output[:MAX_BYTES].decode("utf-8", errors="replace").splitlines()
    if len(lines) <= MAX_LINES and len(output) <= MAX_BYTES:
        return "\n".join(lines)
    note = f"(Only the first {min(len(lines), MAX_LINES)} lines; narrow the search.)"
    return "\n".join([*lines[:MAX_LINES], note])
