"""Actions on limits from pages and the API, and the runs that they affect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, get_args

from sleipnir.records import dataclass
from sleipnir.scheduler.client.limits.commands import LimitCommands
from sleipnir.scheduler.client.limits.report import report
from sleipnir.scheduler.errors import SettingInvalid
from sleipnir.scheduler.limits.records import visit_of
from sleipnir.scheduler.limits.rules import SCOPES, UNLIMITED
from sleipnir.scheduler.views.economy import economy_document
from sleipnir.scheduler.views.engine import holder_document
from sleipnir.scheduler.views.trends.minutes import limits_in_the_last_hour

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types.engine import HolderDocument, TouchedDocument

Kind = Literal["set", "unset", "pause", "resume"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# Bounds on the waiting calls read, and on the runs listed for them.
_MOST_CALLS = 200
_MOST_RUNS = 20
_MOST_REASON = 500
# Visits that are named of those that hold slots of a limit.
_MOST_HOLDERS = 20


@dataclass(frozen=True, slots=True)
class LimitAct:
    """One action on limits."""

    kind: Kind
    target: str  # NAME.SETTING for set and unset, else NAME
    text: str = ""  # the value to set, or the reason for a pause

    @property
    def name(self) -> str:
        """The name of the limit, budget or paused thing."""
        if self.kind in ("set", "unset"):
            return self.target.rpartition(".")[0]
        return self.target


def limits_document(client: Client) -> dict[str, Any]:
    """Return the fields of a `Report` and what waits for batches, as `sleipnir limits --json`."""
    commands = LimitCommands(client.store)
    rules = commands.rules()
    found = report(commands.limiter.queries, rules).to_json()
    return {**found, **economy_document(client.store, rules)}


def limits_overview(client: Client) -> dict[str, Any]:
    """Return the same, with the last hour of each limit and the visits that hold slots."""
    found = limits_document(client)
    queries = LimitCommands(client.store).limiter.queries
    now_ms = queries.now_ms()
    slots = [line["name"] for line in found["limits"] if line["setting"] == "concurrency"]
    return {
        **found,
        "last_hour": limits_in_the_last_hour(client),
        "holders": {
            name: [*_holders(queries.holders(name, now_ms, _MOST_HOLDERS))] for name in slots
        },
    }


def _holders(calls: Iterable[str]) -> Iterator[HolderDocument]:
    for call in calls:
        with suppress(ValueError):  # commands make calls of no run
            yield holder_document(*visit_of(call))


def perform(commands: LimitCommands, act: LimitAct) -> None:
    """Carry out the action; return once all workers know of it.

    Raises:
        SettingInvalid, ActionRefused: as `LimitCommands` does.
    """
    match act.kind:
        case "set":
            commands.set(f"{act.target}={act.text}")
        case "unset":
            commands.unset(act.target)
        case "pause":
            commands.pause(act.target, _reason(act.text))
        case "resume":
            commands.resume(act.target)


def _reason(text: str) -> str:
    if not text.strip():
        raise SettingInvalid("a pause needs a reason; it is shown to those who wait")
    if len(text) > _MOST_REASON:
        raise SettingInvalid(f"the reason is longer than {_MOST_REASON} characters")
    return text.strip()


def told(commands: LimitCommands, act: LimitAct) -> str:
    """Return what an action changes, for the audit log: `concurrency: 4 → 8`."""
    if act.kind == "pause":
        return f"pause: {act.text}"
    if act.kind == "resume":
        return "resume"
    setting = act.target.rpartition(".")[2]
    old = _value(commands, act.name, setting)
    return f"{setting}: {old} → {act.text if act.kind == 'set' else 'as configured'}"


def _value(commands: LimitCommands, name: str, setting: str) -> Any:
    rules = commands.rules()
    found = next((each for each in rules.budgets if each.scope == name), None)
    value = getattr(found if name in SCOPES else rules.limit(name), setting, None)
    return UNLIMITED if value is None else value


def touched_document(client: Client, name: str) -> TouchedDocument:
    """Return what a change to a name affects now: running and waiting calls, and their runs."""
    queries = LimitCommands(client.store).limiter.queries
    now_ms = queries.now_ms()
    calls = queries.next_turns(name, now_ms, _MOST_CALLS)
    run_ids = list(dict.fromkeys(visit_of(call)[0] for call, _ in calls))
    return {
        "name": name,
        "under_way": queries.calls_under_way(name, now_ms),
        "waiting": queries.waiting(name, now_ms),
        "runs": run_ids[:_MOST_RUNS],
    }
