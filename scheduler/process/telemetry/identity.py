"""Ids of traces and spans: hashes of what they are about, so that any process can name any of them.

A run goes through many processes and may wait for days, so nothing is kept open for it. Whoever
emits a span computes its parent's id from what both know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from sleipnir.lazy import lazy_imports

# It loads OpenSSL, which commands that submit nothing do not need.
with lazy_imports():
    import hashlib

# Version, trace id, id of the parent span, flags; later versions may add parts.
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?"
)
_LENGTH_OF_FIRST = 55  # in version 00
_SAMPLED = 1
_LONGEST_STATE = 512
_MOST_MEMBERS = 32
_MEMBER = re.compile(
    r"[a-z0-9][a-z0-9_\-*/]{0,255}(?:@[a-z][a-z0-9_\-*/]{0,13})?=[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
    r"(?:[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,254}[\x21-\x2b\x2d-\x3c\x3e-\x7e])?"
)


class Trace(NamedTuple):
    """The trace of one try of a run."""

    trace_id: str  # 32 hex digits
    parent: str = ""  # the id of the span that its run's span is a child of; "": it is a root
    is_sampled: bool | None = None  # as the parent says; None: as the sampler says
    state: str = ""  # the parent's `tracestate`

    def stored(self) -> str:
        """Return it, without its state, as runs store it."""
        sampled = "" if self.is_sampled is None else f" {int(self.is_sampled)}"
        return f"{self.trace_id} {self.parent}{sampled}"


# Spans of a run are made one after the other.
@lru_cache(maxsize=4_096)
def trace_of(run_id: str, run_try: int, stored: str = "", state: str = "") -> Trace:
    """Return the trace of a try of a run.

    Args:
        stored: the span in which the run was submitted, or that of the visit that started it; a
            later try is a trace of its own.
        state: its `tracestate`.
    """
    if not stored or run_try > 1:
        return Trace(_digest(f"{run_id} {run_try}")[:32])
    trace_id, parent, *sampled = stored.split(" ")
    return Trace(trace_id, parent, sampled[0] == "1" if sampled else None, state)


def given_trace(traceparent: str) -> Trace | None:
    """Return the trace that a `traceparent` names; None if it is invalid or empty."""
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None or (traceparent.startswith("00") and len(traceparent) != _LENGTH_OF_FIRST):
        return None
    return Trace(found[1], found[2], bool(int(found[3], 16) & _SAMPLED))


def carried(traceparent: str | None, tracestate: str | None) -> tuple[str, str]:
    """Return what a request's headers or an environment carry; an invalid trace is none.

    So the standard wants it: whoever carries it seldom knows of it.
    """
    if traceparent is None or given_trace(traceparent) is None:
        return "", ""
    return traceparent, tracestate or ""


def carried_by(headers: Mapping[str, str]) -> tuple[str, str]:
    """Return the `traceparent` and `tracestate` of a request; "" if it has no valid one."""
    return carried(headers.get("traceparent"), headers.get("tracestate"))


def clean_state(tracestate: str) -> str:
    """Return a `tracestate` as it may be passed on; "" if it is invalid, as its standard says."""
    members = [member.strip() for member in tracestate.split(",") if member.strip()]
    keys = {member.partition("=")[0] for member in members}
    if len(tracestate) > _LONGEST_STATE or len(members) > _MOST_MEMBERS:
        return ""
    if len(keys) < len(members) or not all(map(_MEMBER.fullmatch, members)):
        return ""
    return ",".join(members)


@lru_cache(maxsize=4_096)
def run_span(run_id: str, run_try: int) -> str:
    """Return the id of a run's span."""
    return _digest(_name(run_id, run_try))[:16]


def visit_span(run_id: str, run_try: int, visit: str, attempt: int) -> str:
    """Return the id of the span of an attempt at a visit."""
    return _digest(f"{_name(run_id, run_try)} {visit} {attempt}")[:16]


def call_span(run_id: str, run_try: int, visit: str, attempt: int, call: str) -> str:
    """Return the id of the span of something that a visit has called or asked."""
    return _digest(f"{_name(run_id, run_try)} {visit} {attempt} {call}")[:16]


def _name(run_id: str, run_try: int) -> str:
    return run_id if run_try == 1 else f"{run_id} {run_try}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
