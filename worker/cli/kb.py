"""`sleipnir kb`: manages knowledge bases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import complete_agents
from sleipnir.scheduler.cli.connect import open_client, search_of, settings_of
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.process.periodic import pause
from sleipnir.scheduler.runs.ids import new_run_id
from sleipnir.scheduler.views.text.terminal_output import printable

with lazy_imports():
    from sleipnir.graphs import errors as graph_errors
    from sleipnir.graphs.document import loader
    from sleipnir.graphs.knowledge import bases
    from sleipnir.scheduler.cli import progress, terminal
    from sleipnir.scheduler.cli.asking import knowledge as knowledge_questions
    from sleipnir.scheduler.client.knowledge import plans as knowledge_plans
    from sleipnir.scheduler.runs import events
    from sleipnir.scheduler.store.knowledge import indexes as store
    from sleipnir.scheduler.views.text import formatting
    from sleipnir.worker.knowledge import agent_base, by_hand, root_build
    from sleipnir.worker.knowledge import errors as knowledge_errors

if TYPE_CHECKING:
    from sleipnir.graphs.knowledge.pointer import Pointer
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.model import Run
    from sleipnir.scheduler.store.knowledge.indexes import Indexes
    from sleipnir.worker.knowledge.agent_base import AgentBase
    from sleipnir.worker.knowledge.by_hand import CommandModels
    from sleipnir.worker.knowledge.reading.documents import Loaded
    from sleipnir.worker.knowledge.search import Hit

_LOOK_S = 1.0


@click.group
def kb() -> None:
    """Build, search, show and remove the knowledge bases of agents.

    NODE is a rag node; it may be omitted if there is only one knowledge base.
    """


@kb.command
@click.argument("agent", shell_complete=complete_agents)
@click.argument("node", required=False)
@click.option("--watch", is_flag=True, help="Build again whenever a local file changes.")
@common_options()
def build(options: Options, agent: str, node: str | None, watch: bool) -> None:
    """Build a knowledge base from its documents as they are now."""
    base = _asked(_whole(_base(options, agent, node)))
    with open_client(options, workers=True) as client:
        before = base.files_hash()
        _build(options, client, base)
        while watch:
            while base.files_hash() == before:
                pause(_LOOK_S)
            before = base.files_hash()
            try:
                _build(options, client, base)
            except knowledge_errors.BuildFailed as error:
                options.say(f"error: {printable(str(error))}")


@kb.command
@click.argument("agent", shell_complete=complete_agents)
@click.argument("node", metavar="[NODE]", required=False)
@click.argument("text", metavar="TEXT", required=False)
@click.option("--top-k", type=click.IntRange(min=1), help="Chunks to show. Default: the node's.")
@common_options(json=True)
def query(
    options: Options, agent: str, node: str | None, text: str | None, top_k: int | None
) -> None:
    """Search a knowledge base, and show how each chunk was ranked."""
    if text is None:  # NODE was omitted, although it comes before TEXT
        node, text = None, node
    if text is None:
        raise click.UsageError("Missing argument 'TEXT'.")
    base = _base(options, agent, node)
    top_k = top_k or base.top_k
    with _named(base), _indexes(options) as (indexes, models):
        hits = base.search(indexes, models, text, top_k)
    if options.json:
        document = {"query": text, "top_k": top_k, "hits": [hit.to_json() for hit in hits]}
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    if not hits:
        options.say("nothing found")
        return
    rows = [_row(number, hit) for number, hit in enumerate(hits, 1)]
    head = ("#", "SCORE", "VECTOR", "KEYWORD", "SOURCE", "TEXT")
    for line in formatting.columns(head, rows):
        click.echo(line)


@kb.command
@click.argument("agent", shell_complete=complete_agents)
@click.argument("node", required=False)
@common_options(json=True)
def info(options: Options, agent: str, node: str | None) -> None:
    """Show what a knowledge base was built from, and what has changed since."""
    base = _base(options, agent, node)
    pointer = base.pointer()
    if pointer is None:
        raise knowledge_errors.KnowledgeFailed(
            f"'{base.node_id}' is not built: `sleipnir kb build {base.agent.name} {base.node_id}`"
        )
    for change in base.changes(pointer):
        options.say(f"warning: {printable(change)} (W605)")
    changed, missing = _differences(options, base)
    document = {
        "agent": base.agent.name,
        "node": base.node_id,
        **{
            field: getattr(pointer, field)
            for field in (
                *("built_at", "address", "embedding_model", "dimension", "chunk_size"),
                *("chunk_overlap", "documents", "files", "chunks"),
            )
        },
        "changed": changed,
        "missing": missing,
    }
    if options.json:
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    for field, value in document.items():
        shown = ", ".join(value) if isinstance(value, list) else value
        if value is None and field in ("changed", "missing"):
            shown = "unknown"
        if field == "embedding_model" and pointer.settings.is_keyword_only:
            shown = "none: keyword only"
        click.echo(f"{field}: {printable(str('-' if shown in (None, '') else shown))}")


@kb.command
@click.argument("agent", shell_complete=complete_agents)
@click.argument("node", required=False)
@common_options()
def rm(options: Options, agent: str, node: str | None) -> None:
    """Discard the build of a knowledge base; its index expires with the retention."""
    base = _base(options, agent, node)
    if not base.file.exists():
        raise knowledge_errors.KnowledgeFailed(f"'{base.node_id}' is not built")
    file = base.file
    with _indexes(options) as (indexes, _):
        base.forget(indexes)
    options.say(f"removed {file}")


def _differences(
    options: Options, base: AgentBase
) -> tuple[list[str], list[str]] | tuple[None, None]:
    """Return the changed and the missing sources; None if the index cannot tell, which is said."""
    try:
        with _named(base), _indexes(options) as (indexes, _):
            return base.differences(indexes)
    except knowledge_errors.KnowledgeFailed as error:
        if not isinstance(
            error.__cause__, (knowledge_errors.IndexGone, knowledge_errors.StoredDamaged)
        ):
            raise
        options.say(f"warning: {printable(str(error))}")
        return None, None


def _base(options: Options, agent: str, node: str | None) -> AgentBase:
    settings = settings_of(options)
    found = loader.load_agent(search_of(options).find(agent))
    return agent_base.base_of(found, node, settings)


def _whole(base: AgentBase) -> AgentBase:
    """Return the base; raises InvalidAgent if its agent's file has errors, which may affect it."""
    if any(finding.severity == "error" for finding in base.agent.findings):
        raise graph_errors.InvalidAgent(base.agent.findings)
    return base


def _asked(base: AgentBase) -> AgentBase:
    """Return the base, with missing settings chosen by the person at the terminal.

    Raises:
        click.Abort: they do not want to build it.
    """
    if not base.missing or not terminal.is_terminal():
        return base
    described = bases.DescribedBase(base.node_id, base.documents, base.node)
    providers = base.settings.models.own_providers
    defaults = knowledge_plans.rag_defaults(base.settings)
    chosen = knowledge_questions.choose_build(providers, base.agent.name, described, defaults)
    if chosen is None:
        raise click.Abort
    return replace(base, chosen=chosen)


@contextmanager
def _named(base: AgentBase) -> Iterator[None]:
    """Name the knowledge base in failures."""
    try:
        yield
    except knowledge_errors.KnowledgeFailed as error:
        is_of_build = isinstance(error, knowledge_errors.BuildFailed)
        kind = knowledge_errors.BuildFailed if is_of_build else knowledge_errors.KnowledgeFailed
        where = f"agent '{base.agent.name}', knowledge base '{base.node_id}'"
        raise kind(f"{where}: {error}") from error


@contextmanager
def _indexes(options: Options) -> Iterator[tuple[Indexes, CommandModels]]:
    """Yield the stored indexes and a way to ask models, with a client of the engine open."""
    with open_client(options, workers=False) as client:
        yield _indexes_of(client), by_hand.CommandModels(client.store)


def _indexes_of(client: Client) -> Indexes:
    return store.Indexes(client.store.client, client.store.settings)


def _build(options: Options, client: Client, base: AgentBase) -> None:
    """Build in a run of its own, and record the build in the agent's directory."""
    with _named(base):
        run_id = new_run_id()
        order = base.order(run_id)
        loaded = base.load()
        _go_on_without(loaded)
        root_build.submit_build(client, order, loaded, run_id)
        try:
            run = _follow(options, client, run_id, base.node_id)
        except KeyboardInterrupt:
            client.cancel(run_id)
            raise
        built = root_build.result_of(run)
        pointer = base.note(order, built, _indexes_of(client))
        for warning in built["warnings"]:
            options.say(f"warning: {printable(warning)}")
        used = run.usage
        cost = "" if not used else f", {formatting.tokens(used)} tokens, {formatting.cost(used)}"
        options.say(f"{base.node_id}: {_counts(pointer)}, {pointer.address[:12]}{cost}")


def _go_on_without(loaded: Loaded) -> None:
    """Leave out unreadable documents if the person at the terminal agrees.

    Raises:
        BuildFailed: they do not, or there is no terminal; it names each document.
    """
    failures = loaded.failures
    if failures and terminal.is_terminal() and knowledge_questions.leaves_out(failures):
        loaded.leave_out([source for source, _ in failures])
    loaded.require_readable()


def _follow(options: Options, client: Client, run_id: str, node_id: str) -> Run:
    """Wait for the build and show its progress."""
    if settings_of(options).redis_url is not None and not client.queries.has_live_scheduler():
        options.say(
            f"run {run_id} is queued, but no worker seems to be running: "
            "start one with `sleipnir worker --scheduler`"
        )
    with progress.StepDisplay(options, node_id) as display:
        for entry in client.events(run_id):
            match entry.event:
                case events.ItemCommitted(done=int(done), total=int(total)):
                    display.update("batches embedded", done, total)
                case events.VisitDelayed(reason=reason):
                    display.note(reason)
    return client.queries.run(run_id)


def _counts(pointer: Pointer) -> str:
    how = "keyword only" if pointer.dimension is None else f"dimension {pointer.dimension}"
    return f"{_many(pointer.files, 'document')}, {_many(pointer.chunks, 'chunk')}, {how}"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _row(number: int, hit: Hit) -> tuple[str, ...]:
    found = hit.to_json()
    return (
        str(number),
        f"{found['score']:.5f}",
        _rank(found["vector_rank"], found["vector_score"]),
        _rank(found["keyword_rank"], found["keyword_score"]),
        printable(hit.chunk.source),
        formatting.first_line(hit.chunk.text, 60),
    )


def _rank(rank: int | None, score: float | None) -> str:
    return "-" if rank is None else f"{rank} ({score:.3f})"
