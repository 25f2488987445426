"""Sessions of normal agents: conversations with a name, which one run after the other goes on with.

A session is nothing but the name of its last run: the next one begins with what that one remembers.
So each run is whole in itself, to be shown, retried and forked like any other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sleipnir.graphs.document.finding import printable
from sleipnir.records import dataclass
from sleipnir.scheduler.agents.memory import TODOS, carried_over
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.model import Run

# The name of what is not kept.
TEMPORARY = "temp"
_NAME = re.compile(r"[\w.@+-]{1,64}")


@dataclass(frozen=True, slots=True)
class Session:
    """A session as a new run finds it."""

    agent: str  # its directory's name
    name: str
    last_run: str | None = None  # None: it begins
    run: Run | None = None  # that run, if it is still there
    state: Mapping[str, Any] | None = None  # what that one remembers, by key

    @property
    def place(self) -> str:
        """What it is stored by."""
        return place_of_session(self.agent, self.name)

    def seeds(self, *, without_todos: bool) -> dict[str, Any]:
        """What the state of the next run begins with, besides what its user says."""
        seeds = carried_over(self.state or {})
        return {key: seeds[key] for key in seeds if not (without_todos and key == TODOS)}

    def submitted_vars(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the values that were given for the next run, now or before.

        Raises:
            SubmissionRefused: now it is another one than before.
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
        """The same variables, with the values that the session began with."""
        kept = self.run.context.variables if self.run is not None else {}
        return {name: kept.get(name, value) for name, value in values.items()}


def place_of_session(agent: str, name: str) -> str:
    return f"{agent}/{name}"


def require_session_name(name: str) -> None:
    """Check a name that somebody gives to a session.

    Raises:
        SubmissionRefused: it cannot be one.
    """
    if not _NAME.fullmatch(name):
        raise SubmissionRefused(
            f"'{printable(name)}' is not a valid session name; use up to 64 letters, digits "
            "and . _ @ + -"
        )
