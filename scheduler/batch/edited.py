"""Finds finished lines of a batch that were run with another version of its agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from sleipnir.records import dataclass
from sleipnir.scheduler.batch.attempts import last_attempts
from sleipnir.scheduler.batch.identity import run_id_of
from sleipnir.scheduler.batch.ledger import Item, Ledger
from sleipnir.scheduler.batch.versions import AgentVersions
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.store.queries import RunQueries

_VERSIONS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class FoundVersions:
    """How many finished lines were run with which version of the agent."""

    now: str | None
    others: Counter[str]  # lines by other version
    unknown: int  # lines

    def describe(self, total: int) -> str:
        """Return the sentence about finished lines of other versions."""
        names = [version for version, _ in self.others.most_common(_VERSIONS_SHOWN)]
        more = ", …" if len(self.others) > _VERSIONS_SHOWN else ""
        word = "version" if len(self.others) == 1 else "versions"
        return (
            f"{self.others.total():,} of {total:,} lines were run with {word} {', '.join(names)}"
            f"{more}, the agent is now {self.now}"
        )


class FinishedVersions:
    """Finds out which versions of the agent finished lines were run with."""

    def __init__(
        self, queries: RunQueries, versions: AgentVersions, batch: str, agent: PreparedAgent
    ) -> None:
        self._queries = queries
        self._versions = versions
        self._batch = batch
        self._agent = agent

    def count(self, ledger: Ledger) -> FoundVersions:
        """Look at all lines, unless it is the first start.

        Raises:
            SubmissionRefused: the batch has runs of another agent.
        """
        found: Counter[str | None] = Counter()
        (known,) = self._queries.batch_rows([self._batch])
        last = 0
        while (known or ledger.has_results()) and (page := ledger.following(last)):
            last = page[-1].number
            found.update(self._of(page))
        now = self._versions.of(self._agent.digest, self._agent.agents)
        others = Counter({version: n for version, n in found.items() if version not in (None, now)})
        return FoundVersions(now, others, found[None])

    def _of(self, page: Sequence[Item]) -> Iterator[str | None]:
        attempts = last_attempts(self._queries, self._batch, self._agent.name, page)
        digests: dict[str, str] = {}
        for item, (attempt, summary) in zip(page, attempts, strict=True):
            if summary is None and item.reported is not None:
                yield item.reported.version
            elif summary is not None and summary.status.is_final:
                digests[run_id_of(self._batch, item.item, attempt)] = summary.digest
        for digest, agents in zip(digests.values(), self._agents(list(digests)), strict=True):
            yield self._versions.of(digest, agents)

    def _agents(self, run_ids: Sequence[str]) -> Sequence[Mapping[str, str]]:
        """Return the bundles of the agents that runs may start; most agents start none."""
        if not self._agent.agents:
            return [{}] * len(run_ids)
        return self._queries.startable_agents(run_ids)
