"""What stays in Redis of a run that is archived: its place in lists, and where the rest is."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from sleipnir.graphs.state import PROMPT_KEY, encode
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.whole.parts import WholeRun
from sleipnir.scheduler.runs.whole.secrets import secrets_of

# Fields of the record. Lists show and search them, and transitions of ended runs read them.
SUMMARY: Final = (
    *("status", "agent", "digest", "created", "started", "ended", "step", "frontier", "try"),
    *("parent", "root", "batch", "item", "line", "labels", "session", "continues", "schedule"),
    *("machine", "earlier_ms", "error", "failed_nodes", "prompt_tokens", "completion_tokens"),
    *("cached_tokens", "cache_written_tokens", "cost", "economy", "unpriced"),
)
# Fields of the record of an archived run alone.
OF_ARCHIVED: Final = ("archived", "prompt", "secrets")
# A longer value would have Redis store the record less densely.
_PROMPT_BYTES = 64


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """Where the object of a run is, and by what it is recognized."""

    day: str  # YYYY/MM/DD
    number: int  # from 1; more if an object of that name was there before
    bytes: int
    sum: str  # its SHA-256, hexadecimal

    @classmethod
    def parse(cls, text: str) -> ObjectPlace:
        """Return what the record of a run says."""
        day, number, size, digits = text.split(" ")
        return cls(day, int(number), int(size), urlsafe_b64decode(f"{digits}=").hex())

    def __str__(self) -> str:
        """Return the field of the record; short, as there are millions of them."""
        digits = urlsafe_b64encode(bytes.fromhex(self.sum)).decode().rstrip("=")
        return f"{self.day} {self.number} {self.bytes} {digits}"


def summary_of(run: WholeRun) -> dict[str, str]:
    """Return the record that stays: fields of `SUMMARY`, and what is in no object.

    That is how the prompt begins, for lists, and the values of secret variables.
    """
    kept = {name: run.record[name] for name in SUMMARY if run.record.get(name)}
    state = run.parts.get("state", {})
    prompt = json.loads(state[PROMPT_KEY]) if PROMPT_KEY in state else None  # type: ignore[call-overload]
    if isinstance(prompt, str) and prompt:
        kept["prompt"] = prompt.encode(errors="replace")[:_PROMPT_BYTES].decode(errors="ignore")
    if secrets := secrets_of(run):
        kept["secrets"] = encode(secrets)
    return kept


def without_summary(run: WholeRun) -> dict[str, str]:
    """Return the fields of the record that did not stay."""
    return {name: value for name, value in run.record.items() if name not in SUMMARY}
