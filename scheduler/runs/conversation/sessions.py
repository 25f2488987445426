"""Sessions of normal agents: named conversations that runs continue one after the other.

A session is only a name for its last run: the next one starts with that run's memory. So each
run is complete in itself, and can be shown, retried and forked like any other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sleipnir.graphs.document.finding import printable
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.conversation.memory import TODOS, carried_over
from sleipnir.scheduler.runs.model import Run, Status

# The name that means no session.
TEMPORARY = "temp"
_NAME = re.compile(r"[\w.@+-]{1,64}")


@dataclass(frozen=True, slots=True)
class Session:
    """A session as a new run finds it."""

    agent: str  # the name of its directory
    name: str
    last_run: str | None = None  # None: it is new
    run: Run | None = None  # that run, if it still exists
    state: Mapping[str, Any] | None = None  # the memory of that run, by key

    @property
    def place(self) -> str:
        """The name it is stored under."""
        return place_of_session(self.agent, self.name)

    @property
    def continued_run(self) -> str:
        """The id of the run whose memory the next one begins with; empty if there is none."""
        return "" if self.run is None else self.run.run_id

    @property
    def owner(self) -> str:
        """The user who began it by a command; empty if nobody did, or that is no longer known."""
        return self.run.context.user if self.run is not None else ""

    def seeds(self, *, without_todos: bool, interrupted: str = "") -> dict[str, Any]:
        """Return the first state of the next run, besides the user's message.

        Args:
            interrupted: what the model had said, if the last run was cancelled.
        """
        is_cut = self.run is not None and self.run.status == Status.CANCELLED
        seeds = carried_over(self.state or {}, interrupted if is_cut and self.state else None)
        return {key: seeds[key] for key in seeds if not (without_todos and key == TODOS)}

    def submitted_vars(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the variables given for the next run, now or earlier.

        Raises:
            SubmissionRefused: a value differs from the earlier one.
        """
        before = self.run.context.submitted_vars if self.run is not None else {}
        kept = self.variables(given)
        for name, value in given.items():
            if kept[name] != value:
                raise SubmissionRefused(
                    f"session '{self.name}' keeps the variables that it started with; leave out "
                    f"--var {printable(name)}, or start another session"
                )
        return {**given, **before}

    def variables(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the variables with the values that the session began with."""
        kept = self.run.context.variables if self.run is not None else {}
        return {name: kept.get(name, value) for name, value in values.items()}


def place_of_session(agent: str, name: str) -> str:
    return f"{agent}/{name}"


def require_owner(session: Session, user: str) -> None:
    """Check that a session is not continued by somebody else.

    Raises:
        SubmissionRefused: it was begun by another user.
    """
    if session.owner and user and session.owner != user:
        raise SubmissionRefused(
            f"session '{session.name}' of '{session.agent}' belongs to "
            f"{printable(session.owner)}, and you are {printable(user)}: choose another "
            "name; if both are you, set SLEIPNIR_USER to the same on both machines"
        )


def require_session_name(name: str) -> None:
    """Check the name of a session.

    Raises:
        SubmissionRefused: it is invalid.
    """
    if not _NAME.fullmatch(name):
        raise SubmissionRefused(
            f"'{printable(name)}' is not a valid session name; use up to 64 letters, digits "
            "and . _ @ + -"
        )
