"""Reads one tool file: the functions it offers, and everything that is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.files import read_text, reason
from sleipnir.graphs.tools.source import INSTRUCTIONS, Source
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass

# Lazy: many agents have no tools, and few have tools in all languages.
with lazy_imports():
    from sleipnir.graphs.tools import bash, python, typescript

if TYPE_CHECKING:
    from sleipnir.graphs.tools.function import Function

_READERS: Mapping[str, Callable[[Source], list[Function]]] = {
    ".py": lambda source: python.python_functions(source),
    ".sh": lambda source: bash.bash_functions(source),
    ".ts": lambda source: typescript.typescript_functions(source),
}
# In the order in which a name without extension is looked up.
EXTENSIONS = tuple(_READERS)

# Nobody writes longer ones, and parsing takes many times as much memory.
_LIMIT_BYTES = 4 * 1024 * 1024

_LEGAL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Prefixes of functions that the engine itself offers, or those of another dialect.
RESERVED_PREFIXES = (
    *("todo__", "agent__", "user__", "rag__", "skill__", "job__", "memory__"),
    *("mcp_search_", "mcp_describe_", "mcp_invoke_", "mcp_read_", "mcp_prompt_"),
)


@dataclass(frozen=True, slots=True)
class ToolFile:
    """What a tool file declares, including functions that have errors."""

    path: Path
    functions: tuple[Function, ...] = ()
    findings: tuple[Finding, ...] = ()
    # `_instructions` of an agent's own tools, which writes its prompt; not offered to models.
    instructions: Function | None = None


def read_tool_file(path: Path, *, own: bool) -> ToolFile:
    """Read a tool file without running it.

    Args:
        path: with one of `EXTENSIONS`.
        own: whether it is an agent's `tools.*`, not a global tool.
    """
    try:
        text = read_text(path, _LIMIT_BYTES, encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        message = f"cannot read the tool file: {reason(error)}"
        return ToolFile(path, findings=(Finding("E603", message, file=str(path)),))
    source = Source(path, text, own)
    try:
        functions = _READERS[path.suffix](source)
    except RecursionError:
        source.report("E603", "cannot read the tool file: it is nested too deeply", 1)
        functions = []
    offered = tuple(function for function in functions if not function.entry.startswith("_"))
    for function in offered:
        _check(function, source)
    instructions = [function for function in functions if function.entry == INSTRUCTIONS]
    return ToolFile(
        path, offered, tuple(source.findings), instructions[0] if own and instructions else None
    )


def _check(function: Function, source: Source) -> None:
    name, line = function.name, function.line
    if not function.description:
        source.report("E604", f"function '{name}' has no description", line)
    if not _LEGAL_NAME.fullmatch(name):
        what = "up to 64 letters, digits, '_' and '-'"
        source.report("E606", f"'{name}' is not a valid function name: expected {what}", line)
    elif name.startswith(RESERVED_PREFIXES):
        prefix = next(prefix for prefix in RESERVED_PREFIXES if name.startswith(prefix))
        source.report("E606", f"function '{name}': names in '{prefix}' are reserved", line)
