"""The Python client: submit agents, follow and answer their runs, cancel them.

The command line is built on it. `sleipnir.scheduler.client.async_client` is its asyncio version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

from sleipnir.graphs.errors import BundleError
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.client.follow import Following
from sleipnir.scheduler.client.named_parts import NamedParts
from sleipnir.scheduler.client.preparing import Preparing
from sleipnir.scheduler.client.rerun.client import Reruns
from sleipnir.scheduler.client.sessions import Sessions
from sleipnir.scheduler.client.steer import Steering
from sleipnir.scheduler.config.agents import agent_search
from sleipnir.scheduler.config.directories import data_dir
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.embedded.acceptances import Acceptances
from sleipnir.scheduler.errors import NotKept
from sleipnir.scheduler.process.temporary import OwnDirectory
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.store.connection import RedisClient, connect, is_private, require_fit
from sleipnir.scheduler.store.dispatch import make_dispatcher
from sleipnir.scheduler.store.machines import Machines
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.recordings import Recordings
from sleipnir.scheduler.store.run_store import RunStore

# Most clients only read runs; preparing agents imports these when needed.
with lazy_imports():
    from sleipnir.graphs.bundles import archive, packed
    from sleipnir.graphs.drawing import outline as outlines
    from sleipnir.graphs.validator import scripts
    from sleipnir.scheduler.client import accepting, endings, spending
    from sleipnir.scheduler.client.hooks import notifications
    from sleipnir.scheduler.client.limits import budget_check
    from sleipnir.scheduler.config import settings as configuration
    from sleipnir.scheduler.embedded import attach as embedded
    from sleipnir.scheduler.runs import submit as submission
    from sleipnir.scheduler.store.clients import translating as clients

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

    from sleipnir.graphs.document.references import AgentSearch
    from sleipnir.graphs.drawing.outline import Outline
    from sleipnir.graphs.schema import Graph
    from sleipnir.scheduler.client.endings import EndedRuns
    from sleipnir.scheduler.client.limits.budget_check import BudgetCheck
    from sleipnir.scheduler.client.preparation import PreparedAgent
    from sleipnir.scheduler.client.spending import By, Spending
    from sleipnir.scheduler.runs.submit import Request


class Client(Preparing, Following, Steering, Sessions, Reruns, NamedParts):
    """Submits runs, follows them, answers their questions, steers and compares them.

    It finds its engine as commands do: the given or configured Redis, or else the embedded engine,
    which is started if necessary, and stops when its last user closes or exits. Threads may share a
    client.

        with Client() as client:
            run = client.wait(client.submit("welcome", Request(prompt="Ada")))

    Args:
        redis_url: overrides the configured one.
        agents_dir: directories of agents, searched before all others.
        workers: whether the embedded engine should execute nodes meanwhile.

    Raises:
        SettingInvalid: the configuration is invalid.
        EngineUnreachable: there is no engine, and none can be started. All methods raise it
            when Redis fails.
    """

    def __init__(
        self,
        redis_url: str | None = None,
        *,
        agents_dir: Sequence[str | Path] = (),
        workers: bool = True,
    ) -> None:
        settings = configuration.load_settings({"redis_url": redis_url}).values
        directories = (*map(str, agents_dir), *settings.agents_dir)
        settings = replace(settings, agents_dir=directories)
        acceptances = None
        with ExitStack() as stack:
            if settings.redis_url is None:
                if workers and settings.notify:
                    notifications.require_notifications(settings)
                engine = embedded.attach(data_dir(), settings, workers=workers)
                url = stack.enter_context(engine).redis_url
                settings = replace(settings, redis_url=url)
                acceptances = Acceptances.of(data_dir().resolve(), url, settings.retention_s)
            redis = _connected(settings)
            stack.callback(redis.close)
            self._use(
                _store(clients.translating_client(redis), settings),
                agent_search(settings, tuple(map(str, agents_dir))),
                acceptances,
            )
            self._held = stack.pop_all()

    @classmethod
    def over(
        cls, store: RunStore, search: AgentSearch, acceptances: Acceptances | None = None
    ) -> Self:
        """Return a client of an existing store."""
        client = cls.__new__(cls)
        client._held = ExitStack()
        client._use(store, search, acceptances)
        return client

    def _use(self, store: RunStore, search: AgentSearch, acceptances: Acceptances | None) -> None:
        self.store = store
        # Only for the embedded engine; durability of another Redis is up to its operator.
        self.acceptances = acceptances
        self.queries = RunQueries(store.client, store.clock, store.archived)
        self.search = search
        self.recordings = Recordings(store.client, store.settings.retention_s)

    @classmethod
    def connect(
        cls, settings: Settings, search: AgentSearch, acceptances: Acceptances | None = None
    ) -> Self:
        """Return a client of the configured Redis.

        Raises:
            EngineUnreachable: no usable Redis answers.
        """
        return cls.over(_store(_connected(settings), settings), search, acceptances)

    def close(self) -> None:
        """Leave the engine; an embedded one stops if nobody else uses it."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def budget_check(self) -> BudgetCheck:
        """The check whether any budget is left."""
        return budget_check.BudgetCheck(self.store)

    # ---- submit

    def machine_with_files(self, pin: bool | None = None) -> str | None:
        """Return this machine's name if runs must be pinned to it to find its files.

        None if all workers run on it, or if none does, or if runs are not to be pinned.

        Args:
            pin: whether they are; None: as the setting `pin` says.
        """
        settings = self.store.settings
        if not (settings.pin == "auto" if pin is None else pin):
            return None
        if settings.redis_url is None or is_private(settings.redis_url):
            return None
        machine = settings.machine_name
        return machine if Machines(self.store.client).have_worker(machine) else None

    def submit(
        self, agent: str | PreparedAgent, request: Request | None = None, *, keep: bool = True
    ) -> str:
        """Accept a run and return its id; from then on it is never lost.

        Args:
            agent: its name, its path, or the result of `prepare`.
            keep: with the embedded engine, wait until it is on disk; else call `keep` later.

        Raises:
            SubmissionRefused: nothing was stored.
            SessionInUse: nothing was stored: another run of the session has not ended.
            AgentNotFound, InvalidAgent, BundleError: as `prepare`.
            NotKept: it was stored, but may get lost.
        """
        prepared = self.prepare(agent) if isinstance(agent, str) else agent
        run_id, _ = accepting.accept(self, prepared, request or submission.Request(), keep=keep)
        return run_id

    def submit_many(self, agent: str | PreparedAgent, requests: Iterable[Request]) -> list[str]:
        """Accept runs of one agent; return their ids in the same order.

        Raises:
            SubmissionRefused: for the first refused one; those before it are accepted.
            AgentNotFound, InvalidAgent, BundleError, NotKept: as `submit`.
        """
        prepared = self.prepare(agent) if isinstance(agent, str) else agent
        run_ids: list[str] = []
        try:
            for request in requests:
                run_ids.append(self.submit(prepared, request, keep=False))
        finally:
            self.keep(run_ids)
        return run_ids

    def keep(self, run_ids: Sequence[str]) -> None:
        """Wait until these runs are on disk, if this client is responsible for that.

        Raises:
            NotKept: Redis has them in memory, but cannot write them to disk.
        """
        if self.acceptances is None or not run_ids:
            return
        try:
            now_ms = self.acceptances.keep(run_ids, self.queries.now_ms)
        except NotKept as error:
            runs = f"run {run_ids[0]}" if len(run_ids) == 1 else f"{len(run_ids)} runs"
            raise NotKept(
                f"{runs} may be lost: {error}; free some space, then check with `sleipnir ps`"
            ) from error
        self.acceptances.tidy(self.queries.left_ms, now_ms)

    def spend(
        self,
        by: Sequence[By] = ("day",),
        *,
        since: date | None = None,
        until: date | None = None,
        agent: str | None = None,
        batch: str | None = None,
        label: str | None = None,
    ) -> Spending:
        """Return what model calls have cost, a row for each combination of the names in `by`.

        Args:
            since, until: whole days in UTC, both included; None: all that is kept.
            agent: only of root runs of this agent, child runs included.
            batch: only of the runs of this batch.
            label: with "label" in `by`, whose values to tell apart; None: of the dearest one.

        Raises `ValueError` for labels with something else but times.
        """
        wanted = spending.SpendFilter(since, until, agent, batch, label)
        return spending.spending(self.store, by, wanted)

    def ended(
        self,
        by: Sequence[endings.By] = ("day",),
        *,
        since: date | None = None,
        until: date | None = None,
        agent: str | None = None,
        batch: str | None = None,
    ) -> EndedRuns:
        """Return how root runs ended, a row for each combination of the names in `by`.

        Removed runs are counted, too; one that was retried is counted at its last end.

        Args:
            since, until, agent, batch: as of `spend`.
        """
        wanted = spending.SpendFilter(since, until, agent, batch)
        return endings.endings(self.store, by, wanted)

    def graph_of(self, run: Run) -> Graph:
        """Return the graph of a run, as it was submitted.

        Raises:
            BundleError: it is no longer stored.
        """
        with self.unpacked(run.digest, run.agent) as bundle:
            graph, _ = packed.packed_agent(bundle)
        assert graph is not None, "only graphs are run"
        return graph

    def outline_of(self, run: Run) -> tuple[Graph, Outline]:
        """Return that graph, and what is drawn of it; raises as `graph_of`."""
        with self.unpacked(run.digest, run.agent) as bundle:
            graph, directory = packed.packed_agent(bundle)
            assert graph is not None, "only graphs are run"
            return graph, outlines.outline_of(graph, scripts.routes_of_scripts(directory, graph))

    def node_types(self, run: Run) -> dict[str, str]:
        """Return the type of each node of that graph, read on its own; raises as `graph_of`."""
        with self.unpacked(run.digest, run.agent) as bundle:
            return packed.node_types(bundle)

    @contextmanager
    def unpacked(self, digest: str, agent: str) -> Iterator[Path]:
        """Unpack the files that runs of an agent were submitted with, for a `with` block.

        Raises:
            BundleError: they are no longer stored.
        """
        data = self.store.bundles.get(digest)
        if data is None:
            raise BundleError(f"the files of agent '{agent}' are no longer stored")
        with OwnDirectory() as scratch:
            archive.unpack(data, digest, scratch.path / "bundle")
            yield scratch.path / "bundle"


def _connected(settings: Settings) -> RedisClient:
    assert settings.redis_url is not None
    redis = connect(settings.redis_url)
    require_fit(redis, allow_unsafe=settings.allow_unsafe_redis)
    return redis


def _store(redis: RedisClient, settings: Settings) -> RunStore:
    assert settings.redis_url is not None
    return RunStore(redis, settings, make_dispatcher(settings.redis_url, settings.broker_url))
