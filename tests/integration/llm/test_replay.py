"""Runs that are answered from a recording: which reply a call gets, and what comes of none."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.model import NO_USAGE, Usage
from sleipnir.scheduler.runs.recording import RecordedCall, read, written
from sleipnir.scheduler.store.recordings import LIMIT_BYTES, Recordings
from sleipnir.worker.llm.caller import Caller
from sleipnir.worker.llm.client import ModelCallFailed, ModelRequest
from sleipnir.worker.llm.recording.canonical import canonical
from sleipnir.worker.llm.recording.replay import NotRecorded, Replay
from tests.support.engine import Engine

ASKED = ModelRequest("openai:m", [{"role": "user", "content": "Hello?"}])
OTHER = ModelRequest("openai:m", [{"role": "user", "content": "Who?"}])
LOOP = """
model: openai:m
start: one
nodes:
  one: {type: llm, prompt: "Same.", next: two, state_updates: {a: "{{output}}"}}
  two: {type: llm, prompt: "Same.", next: three, state_updates: {b: "{{output}}"}}
  three: {type: llm, prompt: "Same.", next: done, state_updates: {c: "{{output}}"}}
  done: {type: end, output: "{{a}} {{b}} {{c}}"}
"""


def replies(text: str, **fields: Any) -> RecordedCall:
    return RecordedCall({"role": "assistant", "content": text}, **fields)


def recorded(request: ModelRequest, text: str) -> RecordedCall:
    return replies(text, request=canonical(request))


@pytest.fixture
def recordings(redis_client: redis.Redis) -> Recordings:
    return Recordings(redis_client, 3600)


class Replaying:
    """A run that replays some calls."""

    def __init__(self, recordings: Recordings, *calls: RecordedCall) -> None:
        self._digest = recordings.put(written(calls), "calls")
        self._replay = Replay(recordings)

    def ask(self, key: str, request: ModelRequest = ASKED, node: str = "n", run: str = "r") -> str:
        caller = Caller(run, run, None, node, key)
        reply = self._replay.reply_to(request, caller, self._digest)
        assert (reply.usage, reply.source) == (NO_USAGE, "replayed")
        return reply.text


def test_the_nth_equal_request_of_a_run_gets_the_nth_reply(recordings: Recordings) -> None:
    run = Replaying(
        recordings, recorded(ASKED, "1"), recorded(OTHER, "other"), recorded(ASKED, "2")
    )

    replied = [run.ask("a"), run.ask("b", OTHER), run.ask("c"), run.ask("d")]

    assert replied == ["1", "other", "2", "2"]
    assert run.ask("a", run="another") == "1"


def test_a_call_that_is_repeated_gets_its_reply_again(recordings: Recordings) -> None:
    run = Replaying(recordings, recorded(ASKED, "1"), recorded(ASKED, "2"))

    replied = [run.ask("a"), run.ask("a"), run.ask("b"), run.ask("a")]

    assert replied == ["1", "1", "2", "1"]


def test_replies_of_a_node_come_in_order_and_the_last_is_repeated(recordings: Recordings) -> None:
    run = Replaying(
        recordings, replies("1", node="n"), replies("x", node="m"), replies("2", node="n")
    )

    replied = [run.ask(key) for key in "abc"] + [run.ask("d", node="m")]

    assert replied == ["1", "2", "2", "x"]


def test_replies_to_anything_are_used_up(recordings: Recordings) -> None:
    run = Replaying(recordings, replies("1"), replies("2"))
    run.ask("a", node="n")
    run.ask("b", OTHER, node="m")

    with pytest.raises(NotRecorded, match="there are 2 replies, and this is model call 3"):
        run.ask("c")

    assert recordings.misses("r") == ["node 'n': there are 2 replies, and this is model call 3"]


def test_calls_without_a_reply_are_listed_in_the_order_they_were_made(
    recordings: Recordings,
) -> None:
    run = Replaying(recordings)
    for key in "cbac":
        with pytest.raises(NotRecorded):
            run.ask(key, node=key)

    assert [miss[:8] for miss in recordings.misses("r")] == ["node 'c'", "node 'b'", "node 'a'"]


def test_a_failure_is_replayed_as_one(recordings: Recordings) -> None:
    run = Replaying(recordings, RecordedCall(error="HTTP 500: no ink"))

    with pytest.raises(ModelCallFailed, match="HTTP 500: no ink") as failed:
        run.ask("a")

    assert not isinstance(failed.value, NotRecorded)
    assert recordings.misses("r") == []


def test_a_recording_that_is_gone_is_told(
    recordings: Recordings, redis_client: redis.Redis
) -> None:
    run = Replaying(recordings, replies("1"))
    redis_client.flushall()

    with pytest.raises(NotRecorded, match="the recording has expired"):
        run.ask("a")


def test_a_run_on_several_workers_counts_its_calls_together(engine: Engine) -> None:
    calls = [replies(text) for text in ("x", "y", "z")]
    digest = engine.client.recordings.put(written(calls), "calls")
    run_id = engine.submit(LOOP, replay=digest)
    engine.work_once()
    engine.configure()  # another process, as far as memory goes

    engine.drive()

    assert engine.run(run_id).output == "x y z"


def test_a_recording_is_in_the_order_of_replies_each_call_once(recordings: Recordings) -> None:
    recordings.add("r", "b", replies("1"))
    recordings.add("r", "a", replies("lost"))
    recordings.add("r", "c", replies("2"))
    recordings.add("r", "a", replies("3"))

    made = recordings.recorded("r")

    assert [call.reply and call.reply["content"] for call in made.calls] == ["1", "2", "3"]
    assert made.complete


def test_a_recording_over_the_limit_says_so(recordings: Recordings) -> None:
    recordings.add("r", "a", replies("x"))
    recordings.add("r", "b", replies("x" * LIMIT_BYTES))
    recordings.add("r", "c", replies("x"))

    made = recordings.recorded("r")

    assert (len(made.calls), made.complete) == (1, False)
    with pytest.raises(SubmissionRefused, match="the limit of a recording is"):
        recordings.put(written([replies("x" * LIMIT_BYTES)]), "calls")


def test_a_written_recording_reads_back_as_it_was() -> None:
    calls = [
        recorded(ASKED, "line\u2028separator\n"),
        RecordedCall(error="HTTP 500", request=canonical(OTHER), node="n"),
        replies("x", usage=Usage(1, 2, 0.5, 1)),
        replies("unpriced", usage=Usage(1, 2, None)),
    ]

    assert read(written(calls), "calls") == calls


def test_everything_about_recordings_expires(
    recordings: Recordings, redis_client: redis.Redis
) -> None:
    run = Replaying(recordings, replies("1"))
    run.ask("a")
    recordings.add("r", "a", replies("x"))

    keys = sorted(redis_client.keys())

    assert [key.split(":")[1] for key in keys] == ["recorded", "recording", "replayed"]
    assert all(0 < redis_client.pttl(key) <= 3_600_000 for key in keys)
