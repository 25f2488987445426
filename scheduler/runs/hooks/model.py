"""A hook as it is defined, and the events that it may be told of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from sleipnir.graphs.document.finding import cut, printable
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.labels import require_labels, require_name

MOST_HOOKS: Final = 100
# Of one hook; the oldest are given up.
MOST_OPEN: Final = 10_000
# The hook whose secret signs what goes to the URL of a single run.
DEFAULT_HOOK: Final = "default"

ENDS: Final = ("run.succeeded", "run.failed", "run.cancelled", "run.timed_out")
EVENTS: Final = (
    "run.started",
    *ENDS,
    "run.waiting",
    "question.asked",
    "question.answered",
    "batch.finished",
    "budget.used_up",
    "schedule.missed",
)
# Names of hooks that `notify` in config.yaml makes begin so, and no others.
NOTIFICATION_PREFIX: Final = "notify."
# Of one hook or trigger, while they are rotated.
_MOST_SECRETS: Final = 3
# How long an earlier secret is good beside a new one.
SECRET_KEPT_S: Final = 86_400.0
# What a person sends to see whether a hook works.
TEST_EVENT: Final = "hook.test"


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """A secret, encrypted with the key of the installation."""

    sealed: str
    until_ms: int | None = None  # it is good until then; None: it is the current one


@dataclass(frozen=True, slots=True)
class Hook:
    """Where events are sent, and which."""

    name: str
    url: str
    events: tuple[str, ...]
    # Events of other runs are not sent; None or empty: of all.
    agent: str | None = None
    batch: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[SealedSecret, ...] = ()  # the current one first
    disabled: str | None = None  # why nothing is sent; None: it is
    made_ms: int = 0

    @property
    def is_notification(self) -> bool:
        """Whether `notify` in config.yaml makes it: it is sent by Apprise, to a URL kept there."""
        return self.name.startswith(NOTIFICATION_PREFIX)


def good_secrets(secrets: Sequence[SealedSecret], now_ms: int) -> tuple[SealedSecret, ...]:
    """Return those that are good at an instant, the current one first."""
    return tuple(each for each in secrets if each.until_ms is None or each.until_ms > now_ms)


def rotated(
    secrets: Sequence[SealedSecret], sealed: str, now_ms: int, keep_s: float
) -> tuple[SealedSecret, ...]:
    """Return secrets after another one has become the current one.

    Args:
        keep_s: for how long the one before it is good as well; 0: not at all.
    """
    until_ms = now_ms + int(1000 * keep_s)
    earlier = [
        replace(each, until_ms=min(each.until_ms or until_ms, until_ms))
        for each in good_secrets(secrets, now_ms)
    ]
    return (SealedSecret(sealed), *(earlier if keep_s else ()))[:_MOST_SECRETS]


def require_filters(agent: str | None, batch: str | None, labels: Mapping[str, str]) -> None:
    """Check what a hook filters by: transitions read it, so its size is bounded.

    Raises:
        SubmissionRefused: a name or label is none that a run could have.
    """
    require_labels(labels)
    for what, name in (("agent", agent), ("batch", batch)):
        if name:
            require_name(what, name)


def events_named(names: Sequence[str]) -> tuple[str, ...]:
    """Return the events that names such as `run.failed` or `question.*` mean, in order.

    Raises:
        SubmissionRefused: a name means none.
    """
    for name in names:
        if not any(_means(name, event) for event in EVENTS):
            raise SubmissionRefused(
                f"there is no event '{cut(printable(name), 80)}': choose of {', '.join(EVENTS)}, "
                "or give run.* or question.*"
            )
    return tuple(event for event in EVENTS if any(_means(name, event) for name in names))


def _means(name: str, event: str) -> bool:
    return name == event or name == f"{event.partition('.')[0]}.*"
