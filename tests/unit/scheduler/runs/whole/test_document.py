"""Runs as documents: what is written is read again, and what is none is refused."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from sleipnir.scheduler.errors import RunFileInvalid
from sleipnir.scheduler.runs.whole.document import from_json, schema, to_json
from sleipnir.scheduler.runs.whole.parts import WholeRun

RUN = WholeRun(
    "0123456789abcdef",
    {
        **{"agent": "tested", "digest": "d" * 64, "status": "failed", "created": "1"},
        **{"ended": "2", "step": "1", "frontier": "a", "context": "{}"},
    },
    {
        "state": {"big": "12345678901234567890123", "text": '"\\ud800"', "float": "1.0"},
        "history": ['{"step":0,"at":1}'],
        "events": [("1-0", '{"kind":"ended"}')],
        "children": ["01cccccccccccccc"],
        "kept": {"1/a": "broken x"},
    },
    {"1/a": {"waits": {"call": "question open"}, "turns": ["{}"]}},
)


def changed(**members: Any) -> str:
    return json.dumps({**json.loads(to_json(RUN)), **members})


def test_a_document_is_the_run_that_was_written() -> None:
    assert from_json(to_json(RUN)) == RUN


def test_a_document_is_what_the_schema_says() -> None:
    jsonschema.validate(json.loads(to_json(RUN)), schema())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a run"),
        (changed(format="other"), "not a run"),
        (changed(version=2), "upgrade it"),
        (changed(version="1"), "version"),
        (changed(run_id="../../etc/passwd"), "16 hexadecimal digits"),
        (changed(record={}), "lacks one of agent"),
        (changed(record={**RUN.record, "created": "soon"}), "whole number"),
        (changed(record={**RUN.record, "status": "running"}), "has not ended"),
        (changed(record={**RUN.record, "agent": 1}), '"record" has what is not texts'),
        (changed(state=[]), '"state" is not a hash'),
        (changed(state={"x": float("nan")}), "not JSON"),
        (changed(history=["x"]), '"history" has what is not objects'),
        (changed(events=[["1-0", "x"]]), '"events" is not a stream'),
        (changed(events=[["*", {}]]), '"events" is not a stream'),
        (changed(visits=[]), '"visits"'),
        (changed(visits={"1/a": {"turns": {}}}), '"turns" is not a list'),
    ],
)
def test_what_is_not_a_run_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(RunFileInvalid, match=reason):
        from_json(text)
