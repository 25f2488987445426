"""The runs that a leased visit's run works with, as the store knows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.schema import Graph
from sleipnir.graphs.state import encode
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.runs.events import Event
from sleipnir.scheduler.runs.model import Lease, RunContext, Usage
from sleipnir.worker.delivery.services import Services

# Few runs have a team.
with lazy_imports():
    from sleipnir.scheduler.runs import teams
    from sleipnir.scheduler.store.conversation import messages

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.conversation.escalation import Escalation
    from sleipnir.scheduler.runs.conversation.messages import Letter, Teammate
    from sleipnir.scheduler.runs.teams import Membership
    from sleipnir.worker.conversation.function_kinds import Recorder


class StoredTeam:
    """The runs that a leased visit's run works with (a `TeamService`)."""

    __slots__ = ("_context", "_lease", "_services")

    def __init__(self, services: Services, lease: Lease, context: RunContext) -> None:
        self._services = services
        self._lease = lease
        self._context = context

    def joined(self, graph: Graph) -> Membership | None:
        """Return the place of an agent node with `teammates` in its team, if there is one."""
        store, run_id, visit = self._services.store.teams, self._lease.run_id, self._lease.visit
        facts = store.facts(run_id, visit)
        team = teams.team_of(graph, run_id, visit, facts.frontier, facts.items)
        if team is None:
            return None
        me = team.at(visit)
        return teams.Membership(team, me, store.read_count(run_id, me.visit))

    def own(self) -> Membership | None:
        """Return this run's place in the team that it was started for, if it was."""
        if not self._context.member:
            return None
        store = self._services.store.teams
        run_id, visit = store.parent_of(self._lease.run_id)
        facts = store.facts(run_id, visit)
        graph = self._services.agents.get(facts.digest).graph
        team = teams.team_of(graph, run_id, visit, facts.frontier, facts.items)
        return None if team is None else teams.Membership(team, team.at(visit), 0)

    def peers(self) -> dict[str, Any]:
        """Return the other members of that team as models are shown them; empty without a team."""
        own = self.own()
        if own is None:
            return {}
        named = own.named()
        ended = self._services.store.teams.ended(own.team.run_id, named)
        peers = [
            {
                "id": each.id,
                "label": each.label,
                "kind": "peer",
                "status": "finished" if each in ended else "running",
            }
            for each in named
        ]
        return {"peer_count": own.others, "peers": peers}

    def teammates(self, name: str | None = None) -> Sequence[Teammate]:
        """Return the runs that it may write to; with a name those that may have it."""
        return self._services.store.messages.teammates(self._lease.run_id, name)

    def sending(self, letter: Letter) -> Recorder:
        """Return a recorder that sends a letter and records its call in one transition."""
        send = self._services.store.messages.send

        def record(
            position: int, entry: Mapping[str, Any], event: Event | None, _usage: Usage
        ) -> None:
            send(self._lease, position, encode(entry), letter, event)

        return record

    def messages(self, first: int) -> Sequence[dict[str, Any]]:
        """Return the messages others have sent to the run, from number `first` on."""
        store = self._services.store
        own = self.own()
        if own is None:
            return store.messages.read(self._lease.run_id, first)
        found = store.teams.messages(own.team.run_id, own.me.visit, first)
        return [messages.shown(each) for each in found]

    def escalations(self) -> Sequence[Escalation]:
        """Return the questions of runs below this root, oldest first."""
        return self._services.store.escalations.pending(self._lease.run_id)

    def replying(self, escalation: Escalation, reply: str) -> Recorder:
        """Return a recorder that answers a question and records its call in one transition."""
        answer = self._services.store.escalations.reply

        def record(
            position: int, entry: Mapping[str, Any], event: Event | None, _usage: Usage
        ) -> None:
            answer(self._lease, position, encode(entry), escalation, reply, event)

        return record
