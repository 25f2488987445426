"""Rules about the files of the agent directory: E003, E201, E202, E203, E222, E603, W038."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePath

from sleipnir.graphs.document.finding import Finding, printable
from sleipnir.graphs.env_file import ENV_FILE, EnvFileRefused, EnvLine, env_lines
from sleipnir.graphs.files import inside, reason
from sleipnir.graphs.schema import ScriptNode
from sleipnir.graphs.validator.context import Context
from sleipnir.graphs.validator.syntax import SyntaxFault, syntax_fault

_BASH_TOOLS = "tools.sh"
_SCRIPT_TYPES = (".sh", ".py", ".ts")


def scripts_can_run(context: Context) -> Iterator[Finding]:
    """E203, E202, E201: a script is inside the directory, of a known type, and exists."""
    for node_id, node in context.graph.nodes_of(ScriptNode):
        path = ("nodes", node_id, "script")
        extension = PurePath(node.script).suffix
        file = inside(context.agent.directory, node.script)
        if file is None:
            message = f"node '{node_id}': script '{node.script}' lies outside the agent directory"
            yield context.finding("E203", message, *path)
        elif extension.lower() not in _SCRIPT_TYPES:
            message = f"node '{node_id}': '{extension}' scripts cannot be run; use .sh, .py or .ts"
            yield context.finding("E202", message, *path)
        elif not _is_file(file):
            message = f"node '{node_id}': script '{node.script}' not found"
            yield context.finding("E201", message, *path)


def programs_can_be_parsed(context: Context) -> Iterator[Finding]:
    """E222: scripts, and E603: the agent's own bash tools, must be free of syntax errors."""
    directory, find_program = context.agent.directory, context.resources.find_program
    paths = {node.script: node_id for node_id, node in context.graph.nodes_of(ScriptNode)}
    for path, node_id in sorted(paths.items()):
        file = inside(directory, path)
        if file is not None and (fault := syntax_fault(file, find_program)):
            yield _syntax_error("E222", f"script '{path}': ", fault, file, node_id)
    tools = directory / _BASH_TOOLS
    if tools.is_file() and (fault := syntax_fault(tools, find_program)):
        yield _syntax_error("E603", "", fault, tools)


def _syntax_error(
    code: str, what: str, fault: SyntaxFault, file: Path, node: str | None = None
) -> Finding:
    hint = f"the line is `{printable(fault.written)}`" if fault.written else None
    message = printable(f"{what}{fault.reason}")
    return Finding(code, message, node, hint, str(file), fault.line)


def environment_files_can_be_read(context: Context) -> Iterator[Finding]:
    """E003, W038: `.env` files that the agent's programs get, its own and that of global tools."""
    for directory in (context.agent.directory, *context.resources.tool_directories):
        file = directory / ENV_FILE
        try:
            for line in env_lines(file):
                if line.looks_expanded:
                    yield _unexpanded(line, file)
        except EnvFileRefused as error:
            yield Finding("E003", error.reason, file=str(file), line=error.line)
        except OSError as error:
            yield Finding("E003", f"cannot read {file.name}: {reason(error)}", file=str(file))


def _unexpanded(variable: EnvLine, file: Path) -> Finding:
    message = f"`${{…}}` in {variable.name} is not expanded: programs get it as it is written"
    hint = "write the value, or put it in single quotes"
    return Finding("W038", message, hint=hint, file=str(file), line=variable.line)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name longer than file systems allow
        return False
