"""Names in traces: computed, parsed, refused."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.process.telemetry import identity

VALID = f"00-{32 * 'a'}-{16 * 'b'}-01"


@pytest.mark.parametrize(
    "text",
    [
        "",
        VALID.upper(),
        VALID[:-1],
        VALID + "-more",  # version 00 has no more parts
        "ff" + VALID[2:],
        VALID.replace("a", "0"),
        VALID.replace("b", "0"),
        VALID + "\n",
    ],
)
def test_what_is_no_traceparent_is_refused(text: str) -> None:
    assert identity.given_trace(text) is None
    assert identity.carried(text, "a=1") == ("", "")


def test_a_trace_is_stored_and_read_back() -> None:
    for text, sampled in (
        (VALID, True),
        (VALID[:-2] + "00", False),
        ("cc" + VALID[2:] + "-x", True),
    ):
        given = identity.given_trace(text)
        assert given is not None
        assert given.is_sampled is sampled
        assert identity.trace_of("run", 1, given.stored(), "a=1") == given._replace(state="a=1")
    undecided = identity.Trace(32 * "a", 16 * "b")
    assert identity.trace_of("run", 1, undecided.stored()) == undecided


def test_a_later_try_is_a_trace_of_its_own() -> None:
    given = identity.given_trace(VALID)
    assert given is not None
    traces = {identity.trace_of("r", n, given.stored()).trace_id for n in (1, 2, 3)}
    assert len(traces | {identity.trace_of("r", 1).trace_id}) == 4
    assert identity.run_span("r", 1) != identity.run_span("r", 2)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("a=1, b@c=2", "a=1,b@c=2"),
        ("a=1,a=2", ""),
        ("A=1", ""),
        ("a=1\r\nx: y", ""),
        ("a=" + 600 * "x", ""),
        (",".join(f"k{n}=1" for n in range(33)), ""),
    ],
)
def test_an_invalid_tracestate_is_not_passed_on(given: str, kept: str) -> None:
    assert identity.clean_state(given) == kept
