"""Their global tool files, beside the shipped ones."""

from __future__ import annotations

import shutil
from pathlib import Path

from sleipnir.graphs.document.finding import listing
from sleipnir.graphs.tools.library import DEFAULT_ALIASES, members_of
from sleipnir.graphs.tools.reader import EXTENSIONS, ToolFile
from sleipnir.graphs.tools.shipped import SHIPPED_TOOLS


def why_not_taken(tool: ToolFile) -> str | None:
    """Return why the shipped tool is better than one of theirs of its name; None if it is not."""
    name = tool.path.stem
    instead = name if name in _shipped() else listing([*members_of(DEFAULT_ALIASES.get(name, ""))])
    programs = (program for function in tool.functions for program in function.bash.programs)
    lacking = [program for program in dict.fromkeys(programs) if shutil.which(program) is None]
    if not (instead and lacking):
        return None
    answers = "" if instead == name else f", which answers to '{name}' too"
    return (
        f"it needs {listing(lacking)}, which this machine lacks: "
        f"the shipped {instead} takes its place{answers}"
    )


def hides_shipped(path: Path) -> bool:
    """Return whether a tool file is used in the place of a shipped one."""
    return path.suffix in EXTENSIONS and path.stem in _shipped()


def _shipped() -> set[str]:
    return {file.stem for file in SHIPPED_TOOLS.iterdir()}
