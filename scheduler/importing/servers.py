"""Their MCP servers that we do not have yet."""

from __future__ import annotations

import json

from sleipnir.graphs.mcp.config import McpConfig, function_suffix
from sleipnir.scheduler.config.secrets import Secrets
from sleipnir.scheduler.importing.imported import Fate, Imported
from sleipnir.scheduler.importing.secrets import missing_secrets


def servers_from(
    theirs: McpConfig, ours: McpConfig, added_to: McpConfig, secrets: Secrets
) -> tuple[list[Imported], str | None]:
    """Return what becomes of their servers, and our `mcp.json`'s new text; None: unchanged.

    Args:
        ours: all our servers.
        added_to: those in the file that gets new ones.
    """
    parts, new = [], {}
    taken = {function_suffix(name): name for name in ours.entries}
    for name, entry in theirs.entries.items():
        notes = missing_secrets(entry, secrets)
        if name in theirs.wrong:
            notes = tuple(str(finding) for finding in theirs.wrong[name])
            parts.append(Imported("MCP server", name, Fate.KEPT, notes))
        elif (other := taken.get(function_suffix(name), name)) != name:
            note = f"its functions would have the same names as those of Sleipnir's '{other}'"
            parts.append(Imported("MCP server", name, Fate.KEPT, (note,)))
        elif name not in ours.entries:
            new[name] = entry
            parts.append(Imported("MCP server", name, Fate.COPIED, notes))
        elif ours.entries[name] == entry:
            parts.append(Imported("MCP server", name, Fate.UNCHANGED, notes))
        else:
            note = "Sleipnir's mcp.json has another server of this name, which is kept"
            parts.append(Imported("MCP server", name, Fate.KEPT, (note,)))
    if not new:
        return parts, None
    document = {"mcpServers": {**added_to.entries, **new}}
    return parts, json.dumps(document, indent=2, ensure_ascii=False) + "\n"
