"""The form that makes or changes a hook: its fields as they are typed, and what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sleipnir.graphs.document.finding import cut, printable
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.hooks.model import ENDS

if TYPE_CHECKING:
    from tornado.web import RequestHandler

    from sleipnir.scheduler.views.types.hooks import HookDocument


@dataclass(frozen=True, slots=True)
class HookFields:
    """What the fields hold."""

    name: str = ""
    url: str = ""
    events: tuple[str, ...] = ENDS
    agent: str = ""
    batch: str = ""
    label: str = ""  # `NAME=VALUE`, one a line

    def wanted(self) -> dict[str, Any]:
        """Return what is asked for, by the names of `WantedHook`.

        Raises:
            SubmissionRefused: a line is no label.
        """
        return {
            "url": self.url,
            "events": list(self.events),
            "filter": {
                "agent": self.agent or None,
                "batch": self.batch or None,
                "label": dict(_label(line) for line in self.label.splitlines() if line.strip()),
            },
        }


BLANK: Final = HookFields()


def filled_by(hook: HookDocument) -> HookFields:
    """Return the fields as a hook has them."""
    chosen = hook["filter"]
    return HookFields(
        name=hook["name"],
        url=hook["url"],
        events=tuple(hook["events"]),
        agent=chosen["agent"] or "",
        batch=chosen["batch"] or "",
        label="\n".join(f"{name}={value}" for name, value in chosen["label"].items()),
    )


def sent_fields(handler: RequestHandler) -> HookFields:
    """Return the fields as they were sent."""
    sent = {
        name: handler.get_body_argument(name, "")
        for name in ("name", "url", "agent", "batch", "label")
    }
    return HookFields(**sent, events=tuple(handler.get_body_arguments("event")))


def _label(line: str) -> tuple[str, str]:
    name, sign, value = line.partition("=")
    if not sign:
        raise SubmissionRefused(
            f"'{cut(printable(line), 80)}' is not a label: write NAME=VALUE, one a line"
        )
    return name.strip(), value.strip()
