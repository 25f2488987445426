"""Labels and names: of agents, batches and queues, and of hooks, schedules and triggers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sleipnir.graphs.document import queues
from sleipnir.graphs.document.finding import cut, printable
from sleipnir.scheduler.errors import SubmissionRefused

MOST_LABELS: Final = 16
LONGEST_VALUE: Final = 255  # characters
LONGEST_NAME: Final = 512  # of an agent or a batch, likewise
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,63}")
_SHORT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def require_labels(labels: Mapping[str, str]) -> None:
    """Check the labels of a new run.

    Raises:
        SubmissionRefused: there are too many, or one is not valid.
    """
    if len(labels) > MOST_LABELS:
        raise SubmissionRefused(f"{len(labels)} labels; a run may have {MOST_LABELS}")
    for name, value in labels.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise SubmissionRefused(
                f"'{printable(str(name))}' is not a valid name of a label: "
                "1 to 63 letters, digits, '_', '.' or '-'"
            )
        if not isinstance(value, str) or not _is_line(value, LONGEST_VALUE):
            raise SubmissionRefused(
                f"the value of label '{name}' must be a text of at most {LONGEST_VALUE} "
                "characters, without line ends and other control characters"
            )


def require_name(what: str, name: str) -> None:
    """Check the name of an agent or a batch: sums over time have several of them, a line each.

    Args:
        what: it is the name of, such as "agent".

    Raises:
        SubmissionRefused: it is not valid.
    """
    if not name or not _is_line(name, LONGEST_NAME):
        raise SubmissionRefused(
            f"'{cut(printable(name), 80)}' is not a valid name of the {what}: 1 to {LONGEST_NAME} "
            "characters, without line ends and other control characters"
        )


def require_short_name(what: str, name: str) -> None:
    """Check the name of a hook, a schedule or a trigger.

    Args:
        what: it is the name of, such as "a hook".

    Raises:
        SubmissionRefused: it is not valid.
    """
    if not _SHORT_NAME.fullmatch(name):
        raise SubmissionRefused(
            f"'{cut(printable(name), 80)}' is not a valid name of {what}: 1 to 64 letters, "
            "digits, '_', '.' or '-', and the first a letter or digit"
        )


def _is_line(text: str, longest: int) -> bool:
    # Not control characters or lone surrogates, which cannot be printed.
    return len(text) <= longest and not any(
        character < " " or "\x7f" <= character <= "\x9f" or "\ud800" <= character <= "\udfff"
        for character in text
    )


def require_queue(name: str | None) -> None:
    """Check the name of a queue, if there is one.

    Raises:
        SubmissionRefused: no queue can have it.
    """
    if name is not None and not re.fullmatch(queues.NAME, name):
        raise SubmissionRefused(
            f"'{printable(name)}' cannot be the name of a queue: give at most 32 of a-z, 0-9, -, "
            "beginning with a letter or a digit"
        )
