"""Explores the project that an agent works on, given by its variable `project_dir`.

For the tool files of agents that read code. Paths are relative to the project; `files` keeps them
inside what the engine allows.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from itertools import islice
from pathlib import Path

from . import files, git, project
from .programs import argument

MAX_ENTRIES = 200
MAX_HITS = 20
MAX_SIMILAR = 3
MAX_LINE = 300
# Characters of one line that are read: whole files may be a single line.
LONGEST_LINE = 1024 * 1024
MAX_LINES = 200
# Characters kept of a command's output: its end, which reports failures.
MAX_OUTPUT = 16_000
COMMAND_S = 900
# Time for what programs left running by the command may still print.
AFTERMATH_S = 0.5
SKIPPED = files.SKIPPED_DIRECTORIES | {"build", ".next", ".venv", ".mypy_cache", ".pytest_cache"}


def root() -> Path:
    """Return the absolute directory of the project; ends the tool if there is none."""
    named = os.environ.get("LLM_AGENT_VAR_PROJECT_DIR") or "."
    directory = files.to_read(named)
    if not directory.is_dir():
        raise SystemExit(f"there is no directory {named}; set the variable project_dir")
    return directory


def detected() -> project.Project:
    """Detect what kind of project it is."""
    return project.detect(root())


def structure(depth: int = 3) -> str:
    """Return the tree of files, directories first, without what is generated or downloaded."""
    top = root()
    lines = list(islice(_tree(top, 0, depth), MAX_ENTRIES + 1))
    if len(lines) > MAX_ENTRIES:
        lines[MAX_ENTRIES:] = [f"(Only the first {MAX_ENTRIES} entries; look into directories.)"]
    return "\n".join([f"{top.name}/", *lines])


def _tree(directory: Path, level: int, depth: int):
    try:
        entries = sorted(directory.iterdir(), key=lambda entry: (not entry.is_dir(), entry.name))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir():
            if entry.name in SKIPPED or entry.is_symlink():
                continue
            yield f"{'  ' * (level + 1)}{entry.name}/"
            if level + 1 < depth:
                yield from _tree(entry, level + 1, depth)
        else:
            yield f"{'  ' * (level + 1)}{entry.name}"


def find_files(pattern: str) -> str:
    """Return files whose path matches a glob; one without a slash matches in every directory."""
    top = root()
    wanted = _glob(pattern if "/" in pattern else f"**/{pattern}")
    found = (
        path
        for path in (file.relative_to(top).as_posix() for file in files.walk(top, SKIPPED))
        if wanted.fullmatch(path)
    )
    return _limited(found, f"no file matches {pattern}")


def search(pattern: str, include: str = "") -> str:
    """Return lines that match a regular expression, as `file:line:text`."""
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise SystemExit(f"the pattern is not a regular expression: {error}") from error
    included = _glob(include if "/" in include else f"**/{include or '*'}")
    return _limited(_hits(wanted, included), f"nothing matches {pattern}")


def _hits(wanted, included):
    top = root()
    for file in files.walk(top, SKIPPED):
        path = file.relative_to(top).as_posix()
        if not included.fullmatch(path):
            continue
        try:
            if files.is_binary(file):
                continue
            for number, line in enumerate(_lines(file), 1):
                if wanted.search(line.rstrip("\n")):
                    yield f"{path}:{number}:{line.strip()[:MAX_LINE]}"
        except OSError:  # not readable: skip it
            continue


def _lines(file: Path):
    """Yield the lines of a file; of a very long one, only its beginning."""
    with file.open(encoding="utf-8", errors="replace") as text:
        while line := text.readline(LONGEST_LINE):
            yield line
            while line and not line.endswith("\n"):
                line = text.readline(LONGEST_LINE)


def read(path: str, offset: int = 1, limit: int = MAX_LINES) -> str:
    """Return lines of a file, each as `number: text`."""
    if offset < 1 or limit < 1:
        raise SystemExit("offset and limit count from 1")
    file = inside(path)
    if not file.is_file():
        raise SystemExit(f"there is no file {path} in the project")
    if files.is_binary(file):
        raise SystemExit(f"{path} is not a text file")
    lines = _lines(file)
    wanted = enumerate(islice(lines, offset - 1, offset - 1 + limit), offset)
    shown = [f"{number}: {line.rstrip()[:MAX_LINE]}" for number, line in wanted]
    if next(lines, None) is not None:
        shown.append(f"(There is more: go on with offset={offset + len(shown)}.)")
    return "\n".join(shown) or f"{path} has no line {offset}"


def similar(path: str) -> str:
    """Return up to three files of the same kind, nearest first, as examples of their style."""
    top, file = root(), inside(path)
    near = [
        other
        for other in files.walk(top, SKIPPED)
        if other.suffix == file.suffix and other.resolve() != file
    ]
    near.sort(key=lambda other: (_distance(file.parent, other.resolve().parent), str(other)))
    found = [other.relative_to(top).as_posix() for other in near[:MAX_SIMILAR]]
    return "\n".join(found) or f"there is no other {file.suffix or 'such'} file"


def _distance(one: Path, other: Path) -> int:
    """Return the number of steps up and down from one directory to the other."""
    shared = os.path.commonpath([one, other])
    return len(one.parts) + len(other.parts) - 2 * len(Path(shared).parts)


def inside(path: str) -> Path:
    """Return an absolute path in the project; ends the tool if it leads outside."""
    top = root()
    target = files.to_read(str(top / path))
    if target != top and top not in target.parents:
        raise SystemExit(f"refused: {path} is outside the project {top}")
    return target


def look(command: str) -> str:
    """Run a command line that only reads, as `run` does; git runs no program of the project."""
    return run(command, f"{git.shell_function()}\n", git.environment(root()))


def run(command: str, before: str = "", environment: dict[str, str] | None = None) -> str:
    """Run a command line in the project with bash, and tell how it ended.

    Args:
        before: more for bash, which is not shown.
        environment: of the command; None: the tool's own.
    """
    process = subprocess.Popen(
        ["bash", "--noprofile", "--norc", "-o", "pipefail", "-c", before + argument(command)],
        cwd=root(),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output = bytearray()
    reader = threading.Thread(target=_keep_end, args=(process, output), daemon=True)
    reader.start()
    try:
        status = process.wait(COMMAND_S)
        ended = "OK" if status == 0 else f"FAILED with exit status {status}"
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        ended = f"STOPPED after {COMMAND_S} seconds"
    # Not without a limit: a program that it has started may hold the pipe open.
    reader.join(AFTERMATH_S)
    return f"$ {command}\n{_end(bytes(output))}\n{ended}"


def _keep_end(process: subprocess.Popen[bytes], output: bytearray) -> None:
    """Read output as it arrives, however much there is."""
    with process.stdout:
        while chunk := process.stdout.read1(65536):
            output += chunk
            del output[: -4 * (MAX_OUTPUT + 1)]  # a character has at most four bytes


def _end(output: bytes) -> str:
    text = output.decode("utf-8", errors="replace").strip()
    return text if len(text) <= MAX_OUTPUT else f"(beginning left out)\n{text[-MAX_OUTPUT:]}"


def verify() -> str:
    """Check the project, or build it if it has no check."""
    found = detected()
    command = found.check or found.build
    return run(command) if command else _nothing("check or build", found)


def build() -> str:
    """Build the project, or check it if there is nothing to build."""
    found = detected()
    command = found.build or found.check
    return run(command) if command else _nothing("build", found)


def test() -> str:
    """Run the project's tests."""
    found = detected()
    return run(found.test) if found.test else _nothing("test", found)


def _nothing(what: str, found: project.Project) -> str:
    return f"No {what} command is known for this project ({found.type}); nothing was run"


def _glob(pattern: str):
    try:
        return files.glob_pattern(pattern)
    except re.error as error:
        raise SystemExit(f"the pattern is not a glob: {error}") from error


def _limited(found, otherwise: str) -> str:
    lines = list(islice(found, MAX_HITS + 1))
    if len(lines) > MAX_HITS:
        lines[MAX_HITS:] = [f"(Only the first {MAX_HITS}; narrow the search.)"]
    return "\n".join(lines) or otherwise
