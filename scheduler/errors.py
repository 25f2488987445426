"""What can go wrong with a run, its store or its engine; the tree callers catch by.

SleipnirError
├── GraphError            something is wrong with an agent (sleipnir.graphs.errors)
├── SettingInvalid        a setting from a flag, the environment or config.yaml is unusable
├── SecretsUnusable       the secrets file cannot be read, or other users could read it
├── SecretsMissing        a `{{NAME}}` that is in neither the secrets file nor the environment
├── EngineUnreachable     no usable Redis, or none that can be started
│   ├── EngineUnfit       a Redis answers but may lose or evict what it is given
│   └── NotKept           what Redis has acknowledged cannot be put on disk
├── ArtifactStoreFailed   the place for indexes that the settings name cannot be used
├── RunLost               a run that was accepted here is not in Redis any more
├── SubmissionRefused     a run was not accepted; nothing was stored
│   └── BudgetUsedUp      a budget that stops submissions has nothing left
├── StillRunning          a run was not over in the time its caller had for it
├── RunNotFound           no run with that id or prefix
├── AmbiguousRun          a prefix names several runs
├── BadCursor             a cursor that no page of that list has given
├── SessionInUse          a run of the session goes on
├── AnswerRefused         no such open question, or somebody was faster
│   └── AnswerInvalid     not what the question asks for; it stays open
├── ActionRefused         the run's status does not allow it
├── TransitionBroken      a transition failed at what it found or was given; nothing was written
└── TransitionRefused     the store refused a transition; the caller's view is out of date
    ├── RunClosed         the run already reached a final status
    ├── StaleVisit        the visit is not open (any more), or another delivery owns it
    ├── StaleStep         somebody else advanced this step
    ├── NotOver           the run goes on, or has gone on since the caller looked
    ├── RunGone           nothing is left of the run, or not enough to go on with
    ├── IdTaken           another child of the run has an id with the same last digits
    ├── NotReachable      a message is addressed to a run that this one may not write to
    ├── NotOpen           a message is addressed to a run that is over
    ├── InboxFull         a message is addressed to a run that has many to read already
    ├── NotWaiting        the visit does not wait for that (any more)
    ├── StepFailing       a sibling failed for good; this visit must not park any more
    └── StateTooLarge     the state would exceed its limit; nothing was written
"""

from __future__ import annotations

from collections.abc import Sequence

from sleipnir.errors import SleipnirError as SleipnirError


class Terminated(BaseException):
    """A command is to end at once, by the signal `number`; as KeyboardInterrupt, no error."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


class ArtifactStoreFailed(SleipnirError):
    """Where indexes of knowledge bases are kept outside of Redis cannot be used; says why."""


class SettingInvalid(SleipnirError):
    """A setting cannot be used; names it, its source and the remedy."""


class WrongValue(SleipnirError):
    """A value is not what its setting takes.

    Args:
        path: where within the setting, if it is a mapping.
        problem: what is wrong, without the place.
    """

    def __init__(self, path: tuple[str, ...], problem: str) -> None:
        super().__init__(problem)
        self.path = path
        self.problem = problem


class SecretsUnusable(SleipnirError):
    """The secrets file cannot be read, or must not be because other users could do so."""


class SecretsMissing(SleipnirError):
    """Secrets without a value; `names` lists all of them."""

    def __init__(self, names: Sequence[str], file: str) -> None:
        self.names = tuple(names)
        super().__init__(
            f"no value for {', '.join(f'{{{{{name}}}}}' for name in names)}: "
            f"set it in {file} or in the environment"
        )


class EngineUnreachable(SleipnirError):
    """There is no engine to talk to; the message says where we looked and what to do."""


class EngineUnfit(EngineUnreachable):
    """A Redis answers, but runs would not be safe in it."""


class NotKept(EngineUnreachable):
    """The embedded engine has something in memory that it cannot put on disk."""


class RunLost(SleipnirError):
    """The embedded engine accepted this run, and its Redis does not have it any more."""

    def __init__(self, run_id: str, cause: str) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id} was accepted here and is lost: {cause}")


class SubmissionRefused(SleipnirError):
    """The run was not accepted and nothing was stored."""


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
    """The run was not over in time; it goes on."""

    def __init__(self, run_id: str, timeout_s: float) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id} did not finish within {timeout_s:g} s; it continues")


class RunNotFound(SleipnirError):
    """No run has that id."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"no run '{run_id}'; `sleipnir ps` lists runs")


class AmbiguousRun(SleipnirError):
    """Several runs share that prefix, or may do so: `matches` is empty if it is too short."""

    def __init__(self, prefix: str, matches: Sequence[str]) -> None:
        self.prefix = prefix
        self.matches = tuple(matches)
        shown = ", ".join(self.matches[:5])
        what = f"an ambiguous run id: {shown}" if shown else "too short for a run id"
        super().__init__(f"'{prefix}' is {what}; use a longer prefix")


class BadCursor(SleipnirError):
    """No page of that list gave this cursor."""

    def __init__(self, kind: str, cursor: str) -> None:
        self.cursor = cursor
        shown = cursor if len(cursor) <= 60 else f"{cursor[:60]}…"
        super().__init__(
            f"{shown!a} is not a valid cursor for a list of {kind}; "
            "use the one that the previous page ended with, or none to start"
        )


class SessionInUse(SleipnirError):
    """A session has one run at a time, and `run_id` goes on."""

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
    """A transition failed at what it found in Redis or was given; nothing was written.

    It would fail again.
    """

    def __init__(self, transition: str, reason: str) -> None:
        self.transition = transition
        self.reason = reason
        super().__init__(f"{transition} failed: {reason}")


class TransitionRefused(SleipnirError):
    """The store refused a transition because the caller's view is out of date."""


class RunClosed(TransitionRefused):
    """The run already reached a final status."""


class NotOver(TransitionRefused):
    """The run goes on, or has done so since the caller looked."""


class RunGone(TransitionRefused):
    """The run's record or state has expired."""


class IdTaken(TransitionRefused):
    """Another child of the run has an id with the same last digits."""


class StaleVisit(TransitionRefused):
    """The visit is not open any more, or another delivery owns it."""


class StaleStep(TransitionRefused):
    """Somebody else advanced this step already."""


class NotWaiting(TransitionRefused):
    """The visit does not wait for what it was given, or somebody was faster."""


class NotReachable(TransitionRefused):
    """The run may not write to that one."""


class NotOpen(TransitionRefused):
    """The run that is written to is over."""


class InboxFull(TransitionRefused):
    """The run that is written to has many messages to read already."""


class StepFailing(TransitionRefused):
    """A sibling failed for good; what this visit produced is to be discarded."""


class StateTooLarge(TransitionRefused):
    """The state would exceed its limit; nothing was written."""
