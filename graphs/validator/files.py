"""Rules about the files of the agent directory: E003, E201, E202, E203, E207, E208, E217, W004."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePath

from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.env_file import ENV_FILE, read_env_file
from sleipnir.graphs.files import inside, reason
from sleipnir.graphs.schema import RagNode, ScriptNode
from sleipnir.graphs.validator.context import Context

_SCRIPT_TYPES = (".sh", ".py", ".ts")
# What must be known to build a knowledge base without asking.
_BUILD_SETTINGS = ("embedding_model", "chunk_size", "chunk_overlap")
_URL_SCHEMES = ("http", "https")
_AGENT_FILE_STEMS = ("graph", "config")


def scripts_can_run(context: Context) -> Iterator[Finding]:
    """E203, E202, E201: inside the directory, of a known type, and there."""
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


def documents_stay_inside(context: Context) -> Iterator[Finding]:
    """E207: local documents belong to the agent, unless an engine setting frees them."""
    for node_id, node in context.graph.nodes_of(RagNode):
        for index, document in enumerate(node.documents):
            if not _may_read(context, document.strip()):
                message = (
                    f"rag node '{node_id}': document '{document}' lies outside the agent directory"
                )
                yield context.finding("E207", message, "nodes", node_id, "documents", index)


def knowledge_is_there(context: Context) -> Iterator[Finding]:
    """E208, when a run is to start: a knowledge base must be built, or buildable unasked."""
    if not context.resources.require_knowledge:
        return
    defaults = context.resources.rag_defaults
    for node_id, node in context.graph.nodes_of(RagNode):
        fields = [
            field
            for field in _BUILD_SETTINGS
            if getattr(node, field) is None and defaults.get(field) is None
        ]
        if fields and not _is_file(context.agent.directory / f"{node_id}.yaml"):
            message = (
                f"rag node '{node_id}': knowledge base not built;"
                f" set {', '.join(fields)} or build it once"
            )
            yield context.finding("E208", message, "nodes", node_id)


def knowledge_overwrites_no_agent_file(context: Context) -> Iterator[Finding]:
    """E217: a knowledge base is kept in `<node id>.yaml`."""
    for node_id, _ in context.graph.nodes_of(RagNode):
        if node_id in _AGENT_FILE_STEMS:
            message = f"rag node '{node_id}': this id would overwrite {node_id}.yaml"
            yield context.finding("E217", message, "nodes", node_id)


def retrieved_text_is_kept(context: Context) -> Iterator[Finding]:
    """W004: only `state_updates` keep what a rag node found, or the map it is the branch of."""
    for node_id, node in context.graph.nodes_of(RagNode):
        path = ("nodes", node_id, "state_updates")
        is_lost = not node.state_updates and node_id not in context.branches
        if is_lost and (node.state_updates is not None or not context.is_written(*path)):
            message = f"rag node '{node_id}' has no state_updates: its result is lost"
            yield context.finding("W004", message, *path)


def environment_files_can_be_read(context: Context) -> Iterator[Finding]:
    """E003: each `.env` that an agent's programs get, its own and that of global tools."""
    for directory in (context.agent.directory, *context.resources.tool_directories):
        file = directory / ENV_FILE
        try:
            read_env_file(file)
        except OSError as error:
            yield Finding("E003", f"cannot read {file.name}: {reason(error)}", file=str(file))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name longer than file systems take
        return False


def _may_read(context: Context, document: str) -> bool:
    loader, colon, path = document.partition(":")
    if colon and "/" not in loader and loader not in _URL_SCHEMES:
        document = path
    if document.startswith(tuple(f"{scheme}://" for scheme in _URL_SCHEMES)):
        return True
    if document.startswith("~") or PurePath(document).is_absolute():
        return context.resources.allow_absolute_documents
    return inside(context.agent.directory, document) is not None
