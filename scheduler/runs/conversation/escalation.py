"""Questions of child runs that are escalated to the model of their root."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.consent import consent

_INSTRUCTION = (
    "Agents that work for you are waiting for answers, each for a limited time. Answer with "
    "agent__reply_escalation from what you know, or ask the user first."
)


@dataclass(frozen=True, slots=True)
class Escalation:
    """An open question of a run below the root."""

    run_id: str
    visit: str
    call: str
    asker: str  # the run's handle
    agent: str
    node: str
    kind: str
    question: str
    options: tuple[str, ...] = ()

    @property
    def escalation_id(self) -> str:
        """The id of the question for the root's model: `esc_<8 hex>`."""
        place = f"{self.run_id} {self.visit} {self.call}"
        return f"esc_{hashlib.sha256(place.encode()).hexdigest()[:8]}"

    def shown(self) -> dict[str, Any]:
        """Return the question as shown to the root's model."""
        options = {"options": list(self.options)} if self.options else {}
        return {
            "escalation_id": self.escalation_id,
            "from_agent_id": self.asker,
            "from_agent_name": self.agent,
            "question": f"[{self.kind}] {self.question}",
            **options,
        }

    def answer(self, reply: str) -> str:
        """Return the answer that a reply means."""
        return (consent(reply) or reply) if self.kind == "confirm" else reply


def pending(escalations: Sequence[Escalation]) -> dict[str, Any]:
    """Return the fields added to results while questions are open; empty if none is."""
    return {"pending_escalations": [each.shown() for each in escalations]} if escalations else {}


def notified(result: Any, escalations: Sequence[Escalation]) -> Any:
    """Return the result of a turn's last call, with the open questions added."""
    if not escalations:
        return result
    fields = dict(result) if isinstance(result, Mapping) else {"output": result}
    return {**fields, **pending(escalations), "escalation_instruction": _INSTRUCTION}
