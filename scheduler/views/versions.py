"""Versions of agents: their files, and the differences between two versions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

from sleipnir.graphs.bundles import archive, layout, packed
from sleipnir.graphs.document import loader
from sleipnir.graphs.document.references import is_path
from sleipnir.graphs.errors import AgentNotFound, AmbiguousAgent, BundleError, InvalidAgent
from sleipnir.graphs.files import read_text
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.client.preparation import Preparation, PreparedAgent
from sleipnir.scheduler.client.rerun.agents import current_reference
from sleipnir.scheduler.client.spending import recent_spending
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.process.temporary import OwnDirectory
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.views import agents

with lazy_imports():
    from sleipnir.graphs.drawing import outline as outlines
    from sleipnir.graphs.validator import scripts

if TYPE_CHECKING:
    from sleipnir.graphs.document.loader import Agent
    from sleipnir.graphs.drawing.outline import Outline
    from sleipnir.graphs.schema import Graph
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.model import Run, RunRow
    from sleipnir.scheduler.views.types import agents as types

_MOST_FILES = 500
# Per file; longer ones, and binary ones, are shown only by size.
_MOST_BYTES = 64 * 1024
_MOST_DIFF_LINES = 2_000
_README = "README.md"
_SPENT_DAYS = 30


@dataclass(frozen=True, slots=True)
class AgentVersion:
    """The files of an agent, as found here or as submitted with runs."""

    document: types.DefinedVersionDocument  # its definition, for users
    graph: Graph | None  # None: it cannot be run
    outline: Outline | None  # what is drawn of it
    sizes: Mapping[str, int]  # by path, of all files
    texts: Mapping[str, str]  # by path, of short text files

    @property
    def readme(self) -> str | None:
        return self.texts.get(_README)


def current_version(client: Client, name: str) -> AgentVersion | None:
    """Return the version that a submission would run now; None if there is no such agent.

    Paths are not accepted: remote users must not choose which directories are read.

    If it cannot be submitted, its document says why in `problem`, and it has no files.
    """
    return None if is_path(name) else _version_at(client, name, name)


def _version_at(client: Client, reference: str, name: str) -> AgentVersion | None:
    """Return the version that a reference names now, as `current_version` does for a name."""
    try:
        agent = loader.load_agent(client.search.find(reference), os.environ)
    except AmbiguousAgent as error:
        return _unusable(None, error)
    except AgentNotFound:
        return None
    except InvalidAgent as error:
        return _unusable(None, error)
    bundles: dict[str, bytes] = {}
    try:
        ready = _prepared(client, reference, bundles)
    except (InvalidAgent, BundleError, SubmissionRefused) as error:
        return _unusable(agent, error)
    version = _unpacked(bundles[ready.digest], ready.digest, name)
    warnings: list[types.WarningDocument] = [
        {"code": each.code, "node": each.node, "message": each.message, "hint": each.hint}
        for each in ready.warnings
    ]
    return replace(version, document={**version.document, "warnings": warnings})


def _prepared(client: Client, reference: str, bundles: dict[str, bytes]) -> PreparedAgent:
    """Prepare an agent without storing it; its bundles are put into `bundles`."""
    settings = client.store.settings
    return Preparation(settings, client.search, bundles.__setitem__).prepare(reference)


def current_digest(client: Client, reference: str) -> str | None:
    """Return the version that a submission would run now; None if it would be refused here."""
    try:
        return _prepared(client, reference, {}).digest
    except (AgentNotFound, AmbiguousAgent, InvalidAgent, BundleError, SubmissionRefused):
        return None


def retry_document(client: Client, run: Run) -> types.RetryDocument:
    """Return what a retry with the agent as it is now would change."""
    now = _version_at(client, current_reference(run), run.agent)
    problem = f"there is no agent '{run.agent}' here" if now is None else now.document["problem"]
    files = None
    if now is not None and problem is None:
        with suppress(BundleError):
            files = difference(stored_version(client, run.agent, run.digest), now)
    return {
        "submitted": run.digest,
        "current": None if now is None else now.document["digest"],
        "problem": problem,
        "files": files,
    }


def _unusable(agent: Agent | None, error: Exception) -> AgentVersion:
    return AgentVersion(_defined(agent, None, str(error)), None, None, {}, {})


def _defined(
    agent: Agent | None, digest: str | None, problem: str | None
) -> types.DefinedVersionDocument:
    defined = agents.definition_document(agent)
    return {**defined, "digest": digest, "problem": problem, "warnings": []}


def stored_version(client: Client, name: str, digest: str) -> AgentVersion:
    """Return the version in a bundle.

    Raises:
        BundleError: it is no longer stored, or belongs to another agent.
    """
    data = client.store.bundles.get(digest)
    if data is None:
        raise BundleError(f"the files of version {digest[:12]} of '{name}' are no longer stored")
    return _unpacked(data, digest, name)


def agent_file(client: Client, name: str, digest: str, path: str) -> str | None:
    """Return the text of a file of a version; None if it has no such file, or a long or binary one.

    Raises:
        BundleError: as `stored_version`.
    """
    return stored_version(client, name, digest).texts.get(path)


def _unpacked(data: bytes, digest: str, name: str) -> AgentVersion:
    with OwnDirectory() as scratch:
        root = scratch.path / "bundle"
        archive.unpack(data, digest, root)
        directory = layout.agent_directory(root)
        if directory.name != name:
            raise BundleError(f"version {digest[:12]} is of agent '{directory.name}'")
        try:
            graph, _ = packed.packed_agent(root)
            agent = loader.load_agent(directory, {})
        except InvalidAgent as error:
            raise BundleError(f"version {digest[:12]} cannot be read: {error}") from error
        sizes, texts = _files(directory)
        outline = None
        if agent.is_graph and graph is not None:
            outline = outlines.outline_of(graph, scripts.routes_of_scripts(directory, graph))
    return AgentVersion(_defined(agent, digest, None), graph, outline, sizes, texts)


def _files(directory: Path) -> tuple[dict[str, int], dict[str, str]]:
    """Return sizes and texts of an agent's files; skip dot files, which may hold secrets."""
    sizes: dict[str, int] = {}
    texts: dict[str, str] = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory)
        if not path.is_file() or any(part.startswith(".") for part in name.parts):
            continue
        if len(sizes) == _MOST_FILES:
            break
        sizes[str(name)] = path.stat().st_size
        if sizes[str(name)] <= _MOST_BYTES:
            with suppress(OSError, UnicodeDecodeError):
                texts[str(name)] = read_text(path, _MOST_BYTES)
    return sizes, texts


def versions_of(
    client: Client, runs: Sequence[RunRow], current: str | None
) -> list[types.AgentVersionDocument]:
    """Return the versions of these runs, newest first, each with their number and the newest.

    Args:
        current: digest of the current version, which is listed even without a run.
    """
    found: dict[str, types.AgentVersionDocument] = {}
    digests = client.queries.digests([run.run_id for run in runs])
    for run, digest in zip(runs, digests, strict=True):
        if digest is None:
            continue
        entry = found.setdefault(
            digest,
            {
                "digest": digest,
                "runs": 0,
                "first_at": None,
                "last_at": to_rfc3339(run.created_at),
                "run_id": run.run_id,
                "is_current": digest == current,
            },
        )
        entry["runs"] += 1
        entry["first_at"] = to_rfc3339(run.created_at)
    if current is not None and current not in found:
        fresh: types.AgentVersionDocument = {
            "digest": current,
            "runs": 0,
            "first_at": None,
            "last_at": None,
            "run_id": None,
            "is_current": True,
        }
        return [fresh, *found.values()]
    return list(found.values())


def files_document(shown: AgentVersion) -> list[types.AgentFileDocument]:
    """Return the files of a version."""
    return [
        {"path": path, "bytes": size, "text": shown.texts.get(path)}
        for path, size in shown.sizes.items()
    ]


def run_version_document(client: Client, run: Run) -> types.RunVersionDocument:
    """Return the version of a run's agent, with its files.

    Raises:
        BundleError: it is not stored any more.
    """
    shown = stored_version(client, run.agent, run.digest)
    return {
        "name": run.agent,
        "digest": run.digest,
        "description": shown.document["description"],
        "files": files_document(shown),
    }


def difference(old: AgentVersion, new: AgentVersion) -> list[types.FileChangeDocument]:
    """Return the differing files of two versions, with the differing lines."""
    return [
        {"path": path, "change": change, "lines": _lines(old, new, path)}
        for path in sorted({*old.sizes, *new.sizes})
        if (change := _change(old, new, path)) is not None
    ]


def _change(old: AgentVersion, new: AgentVersion, path: str) -> str | None:
    if path not in old.sizes:
        return "added"
    if path not in new.sizes:
        return "removed"
    same = (old.sizes[path], old.texts.get(path)) == (new.sizes[path], new.texts.get(path))
    return None if same else "changed"


def _lines(old: AgentVersion, new: AgentVersion, path: str) -> list[str] | None:
    if any(path in each.sizes and path not in each.texts for each in (old, new)):
        return None
    before, after = (each.texts.get(path, "").splitlines() for each in (old, new))
    return list(_first(unified_diff(before, after, lineterm="", n=3)))


def _first(lines: Iterator[str]) -> Iterator[str]:
    """Yield diff lines without the two that name the files, up to a maximum."""
    for number, line in enumerate(lines):
        if number >= _MOST_DIFF_LINES:
            yield "…"
            return
        if number >= 2:
            yield line


def agent_document(
    client: Client, name: str, digest: str | None = None
) -> tuple[types.AgentDocument, AgentVersion]:
    """Return an agent or a version of it, with its use, versions and files.

    Args:
        digest: prefix of a version's digest; None: the current version, or else the newest of a
        run.

    Raises:
        AgentNotFound: there is no agent of that name here, nor a stored run of one.
        BundleError: the version is no longer stored.
    """
    current, runs = current_version(client, name), agents.newest_runs(client, name)
    if current is None and not runs:
        raise AgentNotFound(name, [])
    versions = versions_of(client, runs, None if current is None else current.document["digest"])
    shown = current
    if digest is not None or shown is None:
        wanted = _chosen(name, versions, digest)
        shown = stored_version(client, name, wanted) if not is_of(current, wanted) else current
    assert shown is not None
    settings, here = client.store.settings, client.search.names()
    document: types.AgentDocument = {
        "name": name,
        **shown.document,
        "directory": None if (found := here.get(name)) is None else str(found),
        "is_here": current is not None,
        "is_current": shown is current,
        "current_problem": None if current is None else current.document["problem"],
        "models": [] if shown.graph is None else agents.models_of(shown.graph, settings.model),
        "initial_state": {} if shown.graph is None else dict(shown.graph.initial_state),
        "readme": shown.readme,
        "files": files_document(shown),
        "versions": versions,
        "typical": agents.typical_document(runs, client.queries.now_ms()),
        "spent": recent_spending(client.store, _SPENT_DAYS, name),
        "compared": None,
    }
    return document, shown


def compared_document(
    client: Client, name: str, old: str, new: str
) -> types.ComparedVersionsDocument:
    """Return the differing files of two versions, given by prefixes of their digests.

    Raises:
        AgentNotFound, BundleError: as `agent_document`.
    """
    current, runs = current_version(client, name), agents.newest_runs(client, name)
    versions = versions_of(client, runs, None if current is None else current.document["digest"])

    def version(digest: str) -> AgentVersion:
        if current is not None and is_of(current, digest):
            return current
        return stored_version(client, name, digest)

    old, new = (_chosen(name, versions, prefix) for prefix in (old, new))
    return {"old": old, "new": new, "files": difference(version(old), version(new))}


def is_of(version: AgentVersion | None, digest: str) -> bool:
    """Return whether this is the version with a digest."""
    return version is not None and version.document["digest"] == digest


def _chosen(name: str, versions: Sequence[types.AgentVersionDocument], prefix: str | None) -> str:
    """Return the digest of the version with this prefix; the newest for None."""
    found = [each["digest"] for each in versions if each["digest"].startswith(prefix or "")]
    if not found or (prefix is not None and len(found) > 1):
        how = "several versions" if found else "no stored version"
        raise BundleError(f"agent '{name}' has {how} that begin with '{prefix}'")
    return found[0]
