"""The list of rules: invariants of every run, whatever processes died on the way.

Pure: takes one consistent reading of a run. The consistency check reports what breaks a rule; the
sweep of stranded runs acts on what `blocks` a run or has a repair.

A run's own keys are written by its own transitions only, and these are atomic. So keys of a run
that contradict each other are a bug or were written by somebody else: a run that they block fails.
Repairs are for what lies outside these keys and can go missing by itself: timers and the inbox,
which the runs of a partition share, and the runs above and below, which end and are removed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, get_args

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.consistency import (
    conversations,
    ended_runs,
    every_run,
    open_runs,
    progress,
)
from sleipnir.scheduler.runs.snapshot import RunSnapshot

# By their names in lua/runs/repair_run.lua; `fail` ends a run that none of the others can help.
Repair = Literal["set_timers", "list_questions", "close_waits", "cancel", "fail"]
REPAIRS: tuple[Repair, ...] = get_args(Repair)


@dataclass(frozen=True, slots=True)
class Rule:
    """An invariant; `find` yields what breaks it."""

    name: str
    find: Callable[[RunSnapshot], Iterator[str]]
    blocks: bool = False  # a run that breaks it never ends by itself
    repair: Repair | None = None


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule, of a run or of what is named instead of one."""

    run_id: str
    rule: str
    text: str
    repair: Repair | None = None  # what makes the run continue; None: only a report

    def __str__(self) -> str:
        return f"{self.run_id}: {self.rule}: {self.text}"


OF_ALL = (
    Rule("history", every_run.history_is_contiguous),
    Rule("visits", every_run.visits_were_admitted),
    Rule("commits", every_run.visits_are_committed_once),
    Rule("conversation", conversations.calls_have_results),
    Rule("turns", conversations.turns_are_complete),
    Rule("tasks", conversations.tasks_agree),
    Rule("inbox", conversations.inbox_agrees),
    Rule("children", every_run.children_agree),
    Rule("index", every_run.indexes_agree),
)
OF_OPEN = (
    Rule("stuck", progress.step_has_visits, blocks=True),
    Rule("stuck", progress.visits_have_timers, blocks=True, repair="set_timers"),
    Rule("stuck", progress.waits_have_timers, blocks=True, repair="set_timers"),
    Rule("stuck", progress.questions_are_listed, blocks=True, repair="list_questions"),
    Rule("stuck", progress.children_are_under_way, blocks=True, repair="close_waits"),
    Rule("stuck", progress.waits_can_close, blocks=True),
    Rule("stuck", progress.maps_have_invocations, blocks=True),
    Rule("stuck", progress.held_visits_are_let_in, blocks=True),
    Rule("indexes", open_runs.indexes_name_what_is_open),
    Rule("frontier", open_runs.frontier_is_accounted_for),
    Rule("counters", open_runs.counters_agree),
    Rule("parent", open_runs.parent_waits, repair="cancel"),
    Rule("parent", open_runs.parent_lists_it),
    Rule("roster", conversations.children_are_known),
    Rule("roster", conversations.node_children_have_visits),
    Rule("waits", conversations.waits_are_told),
    Rule("deadline", open_runs.deadline_is_watched, repair="set_timers"),
    Rule("deadline", open_runs.deadline_is_set),
    Rule("expiry", open_runs.nothing_expires),
)
OF_ENDED = (
    Rule("leftovers", ended_runs.nothing_is_left),
    Rule("expiry", ended_runs.retention_is_watched, repair="set_timers"),
    Rule("expiry", ended_runs.everything_expires),
)
# Of a run whose parts are in an archive, besides those for ended ones.
OF_ARCHIVED = (
    Rule("archived", ended_runs.what_is_archived_is_gone),
    Rule("children", every_run.children_agree),
    Rule("index", every_run.indexes_agree),
)
OF_NONE = (Rule("orphan", ended_runs.nothing_names_no_run),)


def violations(run: RunSnapshot) -> list[Violation]:
    """Return everything that breaks a rule; to be called with a whole snapshot."""
    return [found for rule in (*_of_all(run), *_of_status(run)) for found in _broken(rule, run)]


def repairable(run: RunSnapshot) -> list[Violation]:
    """Return what blocks a run or can be repaired; each has a repair."""
    rules = (rule for rule in _of_status(run) if rule.blocks or rule.repair is not None)
    return [found for rule in rules for found in _broken(rule, run) if found.repair is not None]


def chosen(found: Iterable[Violation]) -> list[Repair]:
    """Return the repairs for these violations; one that ends the run comes alone."""
    wanted = {each.repair for each in found if each.repair is not None}
    ending: tuple[Repair, ...] = ("fail", "cancel")
    return [each for each in ending if each in wanted][:1] or sorted(wanted)


def _of_all(run: RunSnapshot) -> tuple[Rule, ...]:
    if "archived" in run.record:
        return OF_ARCHIVED
    return OF_ALL if run.record else ()


def _of_status(run: RunSnapshot) -> tuple[Rule, ...]:
    if not run.record:
        return OF_NONE
    return OF_ENDED if run.is_final else OF_OPEN


def _broken(rule: Rule, run: RunSnapshot) -> Iterator[Violation]:
    by_failing: Repair | None = "fail" if rule.blocks else None
    try:
        for text in rule.find(run):
            yield Violation(run.run_id, rule.name, text, rule.repair or by_failing)
    except (KeyError, ValueError, IndexError) as error:
        text = f"its record is invalid: {error!r}"
        yield Violation(run.run_id, rule.name, text, by_failing)
