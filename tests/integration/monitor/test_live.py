"""Pages that are open hear what changes; while none is, nothing is read."""

from __future__ import annotations

import asyncio
import http.client
from pathlib import Path

import pytest

from sleipnir.scheduler.client.limits.commands import LimitCommands
from sleipnir.scheduler.runs.ids import partition_of
from sleipnir.scheduler.store.connection import connect
from sleipnir.scheduler.store.keys import CHANGES, watched_key
from sleipnir.scheduler.store.machines import Machines, WorkerState
from sleipnir.worker.monitor import hub as hub_module
from sleipnir.worker.monitor.hub import MOST_OF_READER, MOST_STREAMS, Hub, Poll, PollResult
from sleipnir.worker.monitor.problems import Refused
from tests.support.engine import Clock, Engine
from tests.support.on_asyncio import run_in_thread
from tests.support.redis_server import RedisServer
from tests.support.site import KEY, ServedSite
from tests.support.wait import wait_until

GRAPH = """
start: review
nodes:
  review:
    {type: approval, question: "ok?", options: ["yes"], routes: {"yes": note}, on_other: note}
  note: {type: script, script: note.sh, next: z}
  z: {type: end, output: "done"}
"""
FILES = {"note.sh": "echo '{}'"}


def test_a_watched_run_tells_each_change_up_to_its_end(engine: Engine, site: ServedSite) -> None:
    run = engine.finish(GRAPH, FILES)

    with site.stream(f"run:{run.run_id}") as frames:
        event, before = next(frames)
        assert (event, before["status"]) == ("change", "waiting")
        assert before["nodes"]["review"] == ["waiting", "◆ waiting", 1]
        engine.client.answer(run.run_id, "yes")
        engine.drive()
        told = list(frames)

    assert [event for event, _ in told][-1] == "final"
    last = told[-1][1]
    assert (last["status"], last["nodes"]["z"][0]) == ("succeeded", "done")
    wait_until(lambda: site.site.hub.streams == 0, "the stream is closed")


def test_lists_tell_that_they_changed(engine: Engine, site: ServedSite) -> None:
    with site.stream("runs,inbox") as frames:
        first = {frame["topic"]: frame for _, frame in (next(frames), next(frames))}
        engine.finish(GRAPH, FILES)
        changed = dict(first)
        while changed["inbox"]["questions"] == 0 or changed["runs"]["counts"]["waiting"] == 0:
            _, frame = next(frames)
            changed[frame["topic"]] = frame

    assert (first["inbox"]["questions"], first["runs"]["counts"]["waiting"]) == (0, 0)
    assert (changed["inbox"]["questions"], changed["runs"]["counts"]["waiting"]) == (1, 1)


def test_batches_workers_and_limits_can_be_watched(engine: Engine, site: ServedSite) -> None:
    Machines(engine.redis).announce(WorkerState("m", 7, 4, 1, 2, 0.0, 0), with_queue=False)
    LimitCommands(engine.store, sleep=lambda _: None).set("openai.concurrency=4")

    with site.stream("batch:night,fleet,limits") as frames:
        first = {frame["topic"]: frame for _, frame in (next(frames), next(frames), next(frames))}
        engine.finish(GRAPH, FILES, batch="night")
        changed = next(frame for _, frame in frames if frame["topic"] == "batch:night")

    assert first["batch:night"]["counts"]["waiting"] == 0
    assert first["fleet"]["workers"] == [["m/7", 1, 2]]
    assert first["limits"]["limits"][0]["value"] == 4
    assert changed["counts"]["open"] + changed["counts"]["waiting"] == 1


def test_changes_are_told_and_not_looked_for(
    engine: Engine, site: ServedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "AGAIN_S", 86_400.0)
    run = engine.finish(GRAPH, FILES)

    with site.stream(f"run:{run.run_id},runs,inbox") as frames:
        known = {frame["topic"]: frame for _, frame in (next(frames), next(frames), next(frames))}
        assert known["inbox"]["questions"] == 1
        engine.client.answer(run.run_id, "yes")
        engine.drive()
        while known["inbox"]["questions"] or not known["runs"]["counts"]["succeeded"]:
            _, frame = next(frames)
            known[frame["topic"]] = frame
        while known[f"run:{run.run_id}"]["status"] != "succeeded":
            _, frame = next(frames)
            known[frame["topic"]] = frame


def test_nobody_is_told_while_nobody_watches_lists(engine: Engine, site: ServedSite) -> None:
    with engine.redis.pubsub(ignore_subscribe_messages=True) as heard:
        heard.subscribe(CHANGES)
        heard.get_message(timeout=1.0)
        run = engine.finish(GRAPH, FILES)
        with site.stream(f"run:{run.run_id}") as frames:
            next(frames)
        assert heard.get_message(timeout=0.2) is None
        assert not engine.redis.exists(watched_key(partition_of(run.run_id)))
        engine.redis.set(watched_key(partition_of(run.run_id)), "", ex=30)
        engine.client.answer(run.run_id, "yes")
        engine.drive()
        told = [heard.get_message(timeout=60.0) for _ in range(3)]
        texts = [message["data"] for message in told if message is not None]
    assert texts == [f"answer {run.run_id}", *2 * [f"run {run.run_id}"]]


def test_topics_are_checked(site: ServedSite) -> None:
    for topics in ("", "run:zz", "runs,nothing", ",".join(f"run:{n:016x}" for n in range(21))):
        assert site.ask(f"/api/v1/stream?topics={topics}").status == 400


def test_pages_are_sent_packed_and_streams_are_not(engine: Engine, site: ServedSite) -> None:
    def encoding_of(path: str) -> str | None:
        connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=90)
        headers = {"Authorization": f"Bearer {KEY}", "Accept-Encoding": "gzip"}
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        connection.close()
        return answer.headers["Content-Encoding"]

    assert encoding_of("/runs") == "gzip"
    assert encoding_of("/api/v1/stream?topics=runs") == "identity"


class Counted:
    """A topic that changes with every look."""

    def __init__(self) -> None:
        self.looks = 0

    def look_at(self, topic: str) -> Poll:
        async def look(_: str) -> PollResult:
            self.looks += 1
            return PollResult(str(self.looks), {"n": self.looks})

        return look


def test_nothing_is_looked_at_before_it_has_changed() -> None:
    counted = Counted()

    async def program() -> None:
        watched: list[list[str]] = []
        hub = Hub(counted.look_at, lambda topics: watched.append(list(topics)))
        watcher = hub.watch(["t"])
        await watcher.frames.get()
        await asyncio.sleep(0.3)
        assert counted.looks == 1
        hub.changed(lambda topic: topic == "other")
        await asyncio.sleep(0.1)
        assert counted.looks == 1
        hub.changed(lambda topic: topic == "t")
        assert (await watcher.frames.get())[0] == "change"
        hub.leave(watcher)
        assert watched == [["t"], []]
        await hub.close()

    run_in_thread(program())


def test_one_look_serves_everybody_and_nobody_needs_none() -> None:
    counted = Counted()

    async def program() -> None:
        hub = Hub(counted.look_at, lambda _: None)
        mine = [hub.watch(["t"], "me") for _ in range(MOST_OF_READER)]
        with pytest.raises(Refused, match="503"):
            hub.watch(["t"], "me")
        left = MOST_STREAMS - MOST_OF_READER
        watchers = [*mine, *(hub.watch(["t"], f"{number}") for number in range(left))]
        with pytest.raises(Refused, match="503"):
            hub.watch(["t"], "another")
        frames = [await watcher.frames.get() for watcher in watchers]
        assert len(set(frames)) == 1
        for watcher in watchers:
            hub.leave(watcher)
        assert hub.streams == 0
        before = counted.looks
        await asyncio.sleep(0)
        assert counted.looks == before
        await hub.close()

    run_in_thread(program())


def test_who_cannot_keep_up_is_told_to_load_the_page_again() -> None:
    async def program() -> None:
        hub = Hub(Counted().look_at, lambda _: None)
        watcher = hub.watch(["t"])
        for number in range(100):
            watcher.give(("change", str(number)))
        waiting = [watcher.frames.get_nowait() for _ in range(watcher.frames.qsize())]
        assert waiting[0] == ("resync", "{}")
        assert waiting[-1] == ("change", "99")
        hub.leave(watcher)
        await hub.close()

    run_in_thread(program())


def test_pages_say_that_redis_is_away_and_come_back(tmp_path: Path, own_directories: None) -> None:
    with (
        RedisServer(tmp_path / "redis") as server,
        connect(server.url) as client,
        ServedSite(Engine(client, Clock(), tmp_path).client) as site,
    ):
        assert site.ask("/readyz").status == 200
        server.kill()
        away = site.ask("/api/v1/runs")
        statuses = site.ask("/readyz").status, site.ask("/healthz").status
        server.start()
        wait_until(lambda: site.ask("/readyz").status == 200, "Redis is back")

    assert (away.status, away.json["error"]["code"]) == (503, "redis")
    assert statuses == (503, 200)
