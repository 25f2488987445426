"""What a Python or TypeScript tool needs, from comments like those of bash tools."""

from __future__ import annotations

import re

from sleipnir.graphs.tools.annotation import (
    BadAnnotation,
    read_aliases,
    read_programs,
    read_variable,
)
from sleipnir.graphs.tools.function import BashDetails, BashVariable
from sleipnir.graphs.tools.source import Source


def read_needs(source: Source, comment: str) -> BashDetails:
    """Return what `@env` and `@meta` lines declare: variables, programs, aliases of parameters.

    Args:
        source: the whole file, as its functions share their needs.
        comment: what begins a comment.
    """
    annotation = re.compile(rf"\s*{comment}\s*@(env|meta)\s+(.*)")
    variables: dict[str, BashVariable] = {}
    programs: list[str] = []
    aliases: dict[str, str] = {}
    for number, line in enumerate(source.text.splitlines(), 1):
        match = annotation.fullmatch(line.rstrip())
        if match is None:
            continue
        if match[1] == "meta":
            programs += read_programs(match[2])
            aliases |= read_aliases(match[2])
            continue
        try:
            variable = read_variable(match[2])
        except BadAnnotation as error:
            source.report("E605", f"@env: {error}", number)
        else:
            variables[variable.name] = variable
    return BashDetails(
        variables=tuple(variables.values()),
        programs=tuple(dict.fromkeys(programs)),
        aliases=aliases,
    )
