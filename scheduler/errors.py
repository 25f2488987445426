"""The errors of runs, the store and the engine; the tree that callers catch by.

SleipnirError
├── GraphError             something is wrong with an agent (graphs.errors)
├── ArtifactStoreFailed    the store for indexes outside of Redis cannot be used
├── SettingInvalid         a setting is invalid
├── WrongValue             a value is not what its setting takes
├── SecretsUnusable        the secrets file cannot be read, or is readable by other users
├── SecretsMissing         secrets without a value
├── EngineUnreachable      no engine can be reached
│   ├── EngineUnfit        a Redis answers, but runs would not be safe in it
│   └── NotKept            the embedded engine cannot write what it has in memory to disk
├── RunLost                the embedded engine accepted this run, but its Redis no longer has it
├── ForgedValue            a stored value is marked as packed, and was not packed by Sleipnir
├── RunFileInvalid         a file is not a run that was archived or exported
├── ArchiveFailed          the archive cannot be used
│   ├── ObjectMissing      the archive does not have an object
│   └── ObjectDamaged      an object of the archive is not what was written
├── SubmissionRefused      the run was not accepted and nothing was stored
│   ├── NameInUse          there is a schedule, hook or trigger of that name
│   ├── BudgetUsedUp       nothing is left of a budget whose `on_excess` is `stop`
│   ├── BadInput           lines of a batch are invalid (scheduler.batch.intake)
│   └── NestedTooDeep      a child run would be nested deeper than allowed (scheduler.runs.submit)
├── StillRunning           the run had not ended in time
├── RunNotFound            no run has that id
│   └── RunRemoved         a run that is over was removed
├── ScheduleNotFound       no schedule has that name
├── HookNotFound           no hook has that name
├── TriggerNotFound        no trigger has that name
├── AmbiguousRun           several runs share that prefix, or may do so
├── BadCursor              the cursor is not from a page of that list
├── ViewInvalid            a list of runs cannot be saved like that
├── SessionInUse           a session has one run at a time, and `run_id` has not ended
├── AnswerRefused          the answer was not taken
│   └── AnswerInvalid      the text is too large, or not what the question asks for
├── ActionRefused          the run's status does not allow what was asked
├── TransitionBroken       a transition failed on its arguments or on what it found in Redis
├── TransitionRefused      the store refused a transition, as the caller's view is out of date
│   ├── RunClosed          the run already reached a final status
│   ├── NotOver            the run has not ended, or was continued since the caller looked
│   ├── RunGone            the run's record or state has expired
│   ├── IdTaken            another child of the run has an id with the same last digits
│   ├── StaleVisit         the visit is not open any more, or another delivery owns it
│   ├── StaleStep          another delivery has already advanced this step
│   ├── NotWaiting         the visit does not wait for this, or no longer does
│   ├── NotReachable       the run may not send messages to that one
│   ├── NotOpen            the recipient of the message has ended
│   ├── InboxFull          the run that is written to has many messages to read already
│   ├── StepFailing        a sibling failed for good
│   ├── ScheduleExists     there is a schedule of that name
│   ├── ScheduleChanged    the schedule was changed or removed since the caller looked
│   ├── NameTaken          there is a hook or trigger of that name
│   ├── DefinitionChanged  the hook or trigger was changed or removed since the caller looked
│   └── StateTooLarge      the state would exceed its limit
├── KnowledgeFailed        a knowledge base is unusable (worker.knowledge.errors)
├── BadExpression          a text is not an expression (graphs.expressions.errors)
├── ExpressionFailed       an expression has no value for these names (graphs.expressions.errors)
│   └── NotSet             a path leads nowhere
├── DrawingTooLarge        a drawing was given up (scheduler.process.drawing.processes)
├── NoSuchMap              the run has no items of a map with that name (scheduler.views.visits)
├── NoCorpus               a package of the benchmark's corpus is missing (worker.bench.rag.corpus)
└── DrawingNotReady        the drawing may be there later (worker.monitor.drawings)
"""

from __future__ import annotations

from collections.abc import Sequence

from sleipnir.errors import SleipnirError as SleipnirError


class Terminated(BaseException):
    """A command must exit because of signal `number`; like KeyboardInterrupt, not an error."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


class ArtifactStoreFailed(SleipnirError):
    """The store for indexes outside of Redis cannot be used; says why."""


class SettingInvalid(SleipnirError):
    """A setting is invalid; names it, its source and the remedy."""


class WrongValue(SleipnirError):
    """A value is not what its setting takes.

    Args:
        path: the place within the setting, if it is a mapping.
        problem: what is wrong, without the place.
    """

    def __init__(self, path: tuple[str, ...], problem: str) -> None:
        super().__init__(problem)
        self.path = path
        self.problem = problem


class SecretsUnusable(SleipnirError):
    """The secrets file cannot be read, or is readable by other users."""


class SecretsMissing(SleipnirError):
    """Secrets without a value; `names` lists all of them."""

    def __init__(self, names: Sequence[str], file: str) -> None:
        self.names = tuple(names)
        super().__init__(
            f"no value for {', '.join(f'{{{{{name}}}}}' for name in names)}: "
            f"set it in {file} or in the environment"
        )


class EngineUnreachable(SleipnirError):
    """No engine can be reached; the message says where we looked and what to do."""


class EngineUnfit(EngineUnreachable):
    """A Redis answers, but runs would not be safe in it."""


class NotKept(EngineUnreachable):
    """The embedded engine cannot write what it has in memory to disk."""


class RunLost(SleipnirError):
    """The embedded engine accepted this run, but its Redis no longer has it."""

    def __init__(self, run_id: str, cause: str) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id} was accepted here and is lost: {cause}")


class ForgedValue(SleipnirError):
    """A stored value is marked as packed, and was not packed by Sleipnir."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"Redis holds a value that Sleipnir has not stored ({reason}): somebody else writes to "
            "it, see `sleipnir doctor --verify`"
        )


class RunFileInvalid(SleipnirError):
    """A file is not a run that was archived or exported."""


class ArchiveFailed(SleipnirError):
    """The archive cannot be used; says why."""


class ObjectMissing(ArchiveFailed):
    """The archive does not have an object."""


class ObjectDamaged(ArchiveFailed):
    """An object of the archive is not what was written."""


class SubmissionRefused(SleipnirError):
    """The run was not accepted and nothing was stored."""


class NameInUse(SubmissionRefused):
    """There is a schedule, hook or trigger of that name.

    Args:
        kind: which of them, as the verb is called that changes it.
    """

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(
            f"there is a {kind} '{name}' already: change it with `sleipnir {kind} edit {name}`"
        )


class BudgetUsedUp(SubmissionRefused):
    """Nothing is left of a budget whose `on_excess` is `stop`."""

    def __init__(self, budget: str, scope: str) -> None:
        self.budget = budget
        super().__init__(
            f"budget '{budget}' is used up, so no run is submitted; raise it with "
            f"`sleipnir limits --set {scope}.usd=…` (or .tokens), or renew it with "
            f"`sleipnir limits --resume {budget}`"
        )


class StillRunning(SleipnirError, TimeoutError):
    """The run had not ended in time; it continues."""

    def __init__(self, run_id: str, timeout_s: float) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id} did not finish within {timeout_s:g} s; it continues")


class RunNotFound(SleipnirError):
    """No run has that id."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"no run '{run_id}'; `sleipnir ps` lists runs")


class RunRemoved(RunNotFound):
    """A run that is over was removed: its retention had passed, or somebody removed it."""

    def __init__(
        self,
        run_id: str,
        *,
        agent: str,
        status: str,
        ended_at: str,
        removed_at: str,
        kept_days: float,
    ) -> None:
        super().__init__(run_id)
        self.agent = agent
        self.status = status
        self.ended_at = ended_at  # RFC 3339, as is `removed_at`
        self.removed_at = removed_at
        self.kept_days = kept_days  # how long finished runs are kept
        self.args = (
            f"run {run_id} of agent '{agent}' ended as {status} at {ended_at} and was removed at "
            f"{removed_at}; finished runs are kept for {kept_days:.3g} days (retention_s)",
        )


class ScheduleNotFound(SleipnirError):
    """No schedule has that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no schedule '{name}'; `sleipnir schedule list` lists them")


class HookNotFound(SleipnirError):
    """No hook has that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no hook '{name}'; `sleipnir hook list` lists them")


class TriggerNotFound(SleipnirError):
    """No trigger has that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no trigger '{name}'; `sleipnir trigger list` lists them")


class AmbiguousRun(SleipnirError):
    """Several runs share that prefix, or may do so: `matches` is empty if it is too short."""

    def __init__(self, prefix: str, matches: Sequence[str]) -> None:
        self.prefix = prefix
        self.matches = tuple(matches)
        shown = ", ".join(self.matches[:5])
        what = f"an ambiguous run id: {shown}" if shown else "too short for a run id"
        super().__init__(f"'{prefix}' is {what}; use a longer prefix")


class BadCursor(SleipnirError):
    """The cursor is not from a page of that list."""

    def __init__(self, kind: str, cursor: str) -> None:
        self.cursor = cursor
        shown = cursor if len(cursor) <= 60 else f"{cursor[:60]}…"
        super().__init__(
            f"{shown!a} is not a valid cursor for a list of {kind}; "
            "use the one that the previous page ended with, or none to start"
        )


class ViewInvalid(SleipnirError):
    """A list of runs cannot be saved like that: its name or its query is none."""


class SessionInUse(SleipnirError):
    """A session has one run at a time, and `run_id` has not ended."""

    def __init__(self, session: str, run_id: str, status: str) -> None:
        self.run_id = run_id
        how = f"answer it with `sleipnir answer {run_id}`" if status == "waiting" else "wait for it"
        super().__init__(
            f"session '{session}' is in use: run {run_id} is {status}; {how}, "
            f"or end it with `sleipnir cancel {run_id}`"
        )


class AnswerRefused(SleipnirError):
    """The answer was not taken: the question is closed, unknown, or already answered."""


class AnswerInvalid(AnswerRefused):
    """The text is too large, or not what the question asks for; the question stays open."""


class ActionRefused(SleipnirError):
    """The run's status does not allow what was asked."""


class TransitionBroken(SleipnirError):
    """A transition failed on its arguments or on what it found in Redis; nothing was written.

    Retrying it would fail again.
    """

    def __init__(self, transition: str, reason: str) -> None:
        self.transition = transition
        self.reason = reason
        super().__init__(f"{transition} failed: {reason}")


class TransitionRefused(SleipnirError):
    """The store refused a transition, as the caller's view is out of date."""


class RunClosed(TransitionRefused):
    """The run already reached a final status."""


class NotOver(TransitionRefused):
    """The run has not ended, or was continued since the caller looked."""


class RunGone(TransitionRefused):
    """The run's record or state has expired."""


class IdTaken(TransitionRefused):
    """Another child of the run has an id with the same last digits."""


class StaleVisit(TransitionRefused):
    """The visit is not open any more, or another delivery owns it."""


class StaleStep(TransitionRefused):
    """Another delivery has already advanced this step."""


class NotWaiting(TransitionRefused):
    """The visit does not wait for this, or no longer does."""


class NotReachable(TransitionRefused):
    """The run may not send messages to that one."""


class NotOpen(TransitionRefused):
    """The recipient of the message has ended."""


class InboxFull(TransitionRefused):
    """The run that is written to has many messages to read already."""


class StepFailing(TransitionRefused):
    """A sibling failed for good; the result of this visit must be discarded."""


class ScheduleExists(TransitionRefused):
    """There is a schedule of that name."""


class ScheduleChanged(TransitionRefused):
    """The schedule was changed or removed since the caller looked."""


class NameTaken(TransitionRefused):
    """There is a hook or trigger of that name."""


class DefinitionChanged(TransitionRefused):
    """The hook or trigger was changed or removed since the caller looked."""


class StateTooLarge(TransitionRefused):
    """The state would exceed its limit; nothing was written."""
