"""The program that runs a function, and its command line."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping

from sleipnir.graphs.tools.function import Function
from sleipnir.worker.sandbox import typescript
from sleipnir.worker.tools.context import ToolContext
from sleipnir.worker.tools.directory import CallDirectory
from sleipnir.worker.tools.environment import WRAPPERS


class ProgramMissing(Exception):
    """This worker lacks a program that a tool needs; the text says which."""


def command_of(
    function: Function, context: ToolContext, environment: Mapping[str, str]
) -> list[str]:
    """Return the argv of a call; nothing in it comes from a model.

    Raises:
        ProgramMissing: there is no such program.
    """
    match function.language:
        case "bash":
            interpreter = ["bash", "--noprofile", "--norc", str(WRAPPERS / "call.sh")]
        case "python":
            interpreter = [_python(context), str(WRAPPERS / "call.py")]
        case "typescript":
            if not typescript.has_node(environment.get("PATH")):
                raise ProgramMissing(typescript.NO_NODE)
            interpreter = [*typescript.COMMAND, str(WRAPPERS / "call.ts")]
    program = interpreter[0]
    if shutil.which(program, path=environment.get("PATH")) is None:
        raise ProgramMissing(f"'{program}' is not on the PATH of this worker")
    return [*interpreter, str(function.file), function.entry]


def missing_tsx(function: Function, directory: CallDirectory) -> str | None:
    """Return the reason if a failed TypeScript call never reached its wrapper, else None."""
    if function.language != "typescript" or not directory.parameters.exists():
        return None
    return f"cannot start: {typescript.NO_TSX}"


def _python(context: ToolContext) -> str:
    """Return the Python of a virtual environment if there is one, else the worker's own."""
    for directory in (context.workdir, context.agent_directory):
        python = directory / ".venv" / "bin" / "python3"
        if python.is_file():
            return str(python)
    return sys.executable
