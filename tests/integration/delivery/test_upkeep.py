"""What the scheduler keeps in order: deadlines, ownership, retention, unused bundles."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import Any, cast

import pytest
from click.testing import CliRunner

from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.errors import RunNotFound
from sleipnir.scheduler.runs.events import QuestionAnswered
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.runs.model import Failure, RunContext
from sleipnir.scheduler.runs.plan import Plan
from sleipnir.scheduler.service.scheduler import Scheduler
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.cluster.layout import untagged
from sleipnir.scheduler.store.keys import counted_key, hours_key, run_key
from sleipnir.scheduler.store.parking import wait_for
from sleipnir.scheduler.store.queries import RunQueries
from tests.support.engine import Engine
from tests.support.keys import dump
from tests.support.noise import noise
from tests.support.queue import lose_all
from tests.support.redis_server import RedisServer
from tests.support.runs import (
    CHILD,
    DIGEST,
    RUN,
    a_question,
    a_run,
    advance,
    begin,
    fanned_out,
    spawn,
    stage,
    started,
    status,
    unchanged,
)

RETENTION_S = 7 * 86_400
OVERDUE = Failure("R005", "too long", None)


# ---- deadlines


def test_a_run_past_its_deadline_is_timed_out_with_its_children(engine: Engine) -> None:
    engine.store.runs.submit(a_run(timeout_s=2.5))
    spawn(engine, "1/s")
    engine.clock.move(2.5)

    engine.tick()

    failure = engine.failure(RUN)
    assert (status(engine), status(engine, CHILD)) == ("timed_out", "cancelled")
    assert (failure.code, failure.message) == (
        "R005",
        "the run took longer than its limit of 2.5s",
    )


def test_a_waiting_run_is_timed_out_too(engine: Engine) -> None:
    engine.store.parking.park(started(engine, timeout_s=60), [wait_for(a_question("1/s"))])
    engine.clock.move(60)

    engine.tick()

    assert status(engine) == "timed_out"
    assert engine.inbox() == []


def test_no_run_is_timed_out_early(engine: Engine) -> None:
    started(engine, timeout_s=60)
    engine.clock.move(59.999)

    with unchanged(engine):
        closed = engine.store.runs.close(RUN, "timed_out", OVERDUE)

    assert not closed


def test_a_run_that_is_over_stays_as_it_ended(engine: Engine) -> None:
    advance(engine, started(engine), Plan({}, output="done"))

    with unchanged(engine):
        closed = engine.store.runs.close(RUN, "cancelled", Failure("cancelled", "late", None))

    assert not closed


# ---- ownership


def test_a_partition_has_one_owner_at_a_time(engine: Engine) -> None:
    first = engine.store.partitions.sweep("me", ttl_s=5, limit=10)
    second = engine.store.partitions.sweep("you", ttl_s=5, limit=10)
    again = engine.store.partitions.sweep("me", ttl_s=5, limit=10)

    assert list(first) == list(again) == list(ALL_PARTITIONS)
    assert second == {}


def test_partitions_let_go_of_are_free_at_once(engine: Engine) -> None:
    engine.store.partitions.sweep("me", ttl_s=5, limit=10)

    engine.store.partitions.release("you")
    still_mine = engine.store.partitions.sweep("you", ttl_s=5, limit=10)
    engine.store.partitions.release("me")

    assert still_mine == {}
    assert len(engine.store.partitions.sweep("you", ttl_s=5, limit=10)) == len(ALL_PARTITIONS)


def test_a_sweep_names_what_is_due_oldest_first_and_in_bounds(engine: Engine) -> None:
    runs = [f"01{number:014x}" for number in range(3)]
    for run_id in runs:
        engine.store.runs.submit(a_run(run_id))
        engine.clock.move(1)
    engine.clock.move(3.5)

    due = engine.store.partitions.sweep("me", ttl_s=5, limit=2)
    few = engine.store.partitions.sweep("me", ttl_s=5, limit=1)

    assert due["{p01}"] == [f"visit {run_id} 1/s" for run_id in runs[:2]]
    assert few["{p01}"] == [f"visit {runs[0]} 1/s"]
    assert due["{p02}"] == []


def test_two_schedulers_on_one_partition_do_no_harm(engine: Engine) -> None:
    engine.store.parking.park(started(engine, timeout_s=60), [wait_for(a_question("1/s"))])
    engine.clock.move(60)
    other = Scheduler(engine.store)
    engine.store.runs.close(RUN, "timed_out", OVERDUE)

    with unchanged(engine):
        assert not engine.store.runs.close(RUN, "timed_out", OVERDUE)
        engine.store.visits.redeliver(RUN, "1/s")
    other.run_once()


def test_a_timer_that_cannot_be_handled_does_not_hold_up_the_others(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.store.parking.park(started(engine, timeout_s=60), [wait_for(a_question("1/s"))])
    engine.redis.zadd("{p01}:timers", {"nonsense": 1, f"visit {CHILD} 1/s": 2})
    engine.redis.set(f"{{p01}}:visits:{CHILD}", "not a hash", ex=60)
    engine.clock.move(60)

    with caplog.at_level(logging.ERROR):
        engine.tick()

    assert status(engine) == "timed_out"
    assert "nonsense" in caplog.text
    engine.redis.zrem("{p01}:timers", "nonsense", f"visit {CHILD} 1/s")


def test_a_run_that_cannot_be_read_is_not_said_to_be_gone(engine: Engine) -> None:
    engine.store.runs.submit(a_run())
    engine.redis.hset(run_key("run", RUN), "deadline", "soon")

    with pytest.raises(ValueError, match="soon"):
        engine.run(RUN)

    engine.redis.hdel(run_key("run", RUN), "deadline")


def test_a_sweep_that_fails_does_not_end_the_scheduler(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    spent, hours = counted_key("{p01}", "spend", 456_000), hours_key("{p01}")
    engine.redis.hset(spent, "nonsense", "nonsense")
    engine.redis.sadd(hours, 456_000)

    engine.tick()

    assert "cannot sweep" in caplog.text
    engine.redis.delete(spent, hours)


# ---- retention


def test_nothing_of_a_finished_run_is_left_after_its_retention(engine: Engine) -> None:
    fanned_out(engine, "a", "b", "m", timeout_s=60, batch=None)
    spawn(engine, "2/a")
    engine.store.parking.open_map(begin(engine, "2/m"), "b", 1, ["1", "2"])
    engine.store.runs.append_logs(RUN, ['{"node":"s"}'])
    engine.store.runs.close(RUN, "cancelled", Failure("cancelled", "enough", None))
    lose_all(engine.redis)
    engine.clock.move(RETENTION_S)

    engine.tick()
    engine.scheduler._store.partitions.release(engine.scheduler._owner)

    left = dump(engine.redis)
    told, expires = left.pop(run_key("gone", RUN))
    counted = ("sleipnir:ended", "sleipnir:hour:ended")  # it stays so
    of_run = {name for name in left if not untagged(name).startswith(counted)}
    assert of_run == {f"{partition}:swept" for partition in ALL_PARTITIONS}
    assert expires
    assert json.loads(told)["status"] == "cancelled"


def test_a_finished_run_stays_until_its_retention_is_over(engine: Engine) -> None:
    advance(engine, started(engine), Plan({}, output="done"))
    engine.clock.move(RETENTION_S - 1)

    engine.tick()

    assert engine.run(RUN).output == "done"


def test_a_waiting_run_is_kept_for_ever(engine: Engine) -> None:
    engine.store.parking.park(started(engine), [wait_for(a_question("1/s"))])
    engine.clock.move(10 * RETENTION_S)

    engine.tick()

    assert status(engine) == "waiting"


def test_a_run_is_forgotten_once(engine: Engine) -> None:
    for run_id in (RUN, CHILD):
        engine.store.runs.submit(a_run(run_id))
    engine.store.runs.close(RUN, "cancelled", Failure("cancelled", "enough", None))
    engine.store.runs.purge(RUN)

    with unchanged(engine):
        engine.store.runs.purge(RUN)

    assert engine.redis.hget("{p01}:bundles", DIGEST) == "1"


def test_a_record_that_somebody_deletes_takes_no_timer_for_ever(engine: Engine) -> None:
    advance(engine, started(engine), Plan({}, output="done"))
    engine.redis.delete(f"{{p01}}:run:{RUN}")
    engine.clock.move(RETENTION_S)

    engine.tick()

    assert not engine.redis.exists("{p01}:timers")


def test_late_output_of_a_finished_run_expires_with_it(engine: Engine) -> None:
    advance(engine, started(engine), Plan({}, output="done"))

    engine.store.runs.append_logs(RUN, ['{"node":"s"}'])

    (entry,) = engine.queries.logs(RUN)
    assert entry == {"at": engine.clock(), "node": "s"}
    assert engine.redis.ttl(f"{{p01}}:logs:{RUN}") > RETENTION_S


def test_a_forgotten_run_takes_neither_events_nor_output(engine: Engine) -> None:
    with unchanged(engine):
        engine.store.runs.append_logs(RUN, ['{"node":"s"}'])
        engine.store.runs.narrate(RUN, QuestionAnswered("s"))

    with pytest.raises(RunNotFound):
        engine.run(RUN)


def test_only_the_newest_output_is_kept(engine: Engine) -> None:
    started(engine)

    engine.store.runs.append_logs(RUN, [f'{{"node":"{number}"}}' for number in range(1_200)])

    logs = engine.queries.logs(RUN)
    assert (len(logs), logs[0]["node"], logs[-1]["node"]) == (1_000, "200", "1199")


def test_output_is_kept_up_to_its_limit_and_what_was_dropped_is_counted(engine: Engine) -> None:
    engine.configure(log_limit_bytes=64 * 1024)
    started(engine)

    for first in range(0, 300, 10):
        entries = [
            f'{{"node":"{number}","text":"{noise(1_000, number)}"}}'
            for number in range(first, first + 10)
        ]
        engine.store.runs.append_logs(RUN, entries, dropped=1)

    kept = engine.queries.logs(RUN)
    size = sum(map(len, cast(list[str], engine.redis.lrange(f"{{p01}}:logs:{RUN}", 0, -1))))
    assert 60 * 1024 < size <= 64 * 1024
    assert [entry["node"] for entry in kept] == [str(n) for n in range(300 - len(kept), 300)]
    assert engine.queries.logs_dropped(RUN) == 300 - len(kept) + 30


def test_logs_tells_what_was_dropped(engine: Engine, redis_server: RedisServer) -> None:
    started(engine)
    entry = {"step": 1, "node": "s", "index": None, "stream": "stderr", "text": "hello"}
    engine.store.runs.append_logs(RUN, [json.dumps(entry)], dropped=3)

    shown = CliRunner().invoke(cli, ["logs", "--redis", redis_server.url, RUN])

    assert shown.stdout == "1 s stderr | hello\n"
    assert shown.stderr.startswith("3 older entries were dropped: the newest are kept")


def test_logs_prints_the_newest_entries_alone(engine: Engine, redis_server: RedisServer) -> None:
    started(engine)
    entry = {"step": 1, "node": "s", "index": None, "stream": "stderr"}
    engine.store.runs.append_logs(RUN, [json.dumps({**entry, "text": text}) for text in "abc"])

    shown = CliRunner().invoke(cli, ["logs", "--tail", "2", "--redis", redis_server.url, RUN])

    assert shown.stdout == "1 s stderr | b\n1 s stderr | c\n"


def test_logs_prints_what_was_stored_since(engine: Engine, redis_server: RedisServer) -> None:
    started(engine)
    since = engine.clock()
    for text in "abc":
        engine.store.runs.append_logs(RUN, [an_entry(text)])
        engine.clock.move(60)

    at = ["--since", to_rfc3339(since + 60_000), "--redis", redis_server.url, RUN]
    shown = CliRunner().invoke(cli, ["logs", "--json", *at])

    told = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [entry["text"] for entry in told] == ["b", "c"]
    assert told[0]["at"] == to_rfc3339(since + 60_000)


def test_logs_goes_on_with_what_comes_until_the_run_is_over(
    engine: Engine, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(engine)
    engine.store.runs.append_logs(RUN, [an_entry("a"), an_entry("b")])
    looked, news = [], RunQueries.news

    def news_while_it_goes_on(queries: RunQueries, *arguments: Any) -> Any:
        looked.append(arguments)
        engine.store.runs.append_logs(RUN, [an_entry(f"look {len(looked)}")], dropped=1)
        if len(looked) == 2:
            engine.store.runs.close(RUN, "cancelled", Failure("cancelled", "enough", None))
        return news(queries, *arguments)

    monkeypatch.setattr(RunQueries, "news", news_while_it_goes_on)
    call = ["logs", "-f", "--tail", "1", "--redis", redis_server.url, RUN]
    shown = CliRunner().invoke(cli, call)
    again = CliRunner().invoke(cli, call)

    assert (shown.exit_code, shown.stdout.splitlines()) == (
        0,
        [f"1 s stderr | {text}" for text in ("b", "look 1", "look 2")],
    )
    assert again.stdout == "1 s stderr | look 2\n"
    assert len(looked) == 2


def test_a_log_is_read_on_from_where_it_was_though_entries_are_dropped(engine: Engine) -> None:
    started(engine)
    engine.store.runs.append_logs(RUN, [an_entry(str(n)) for n in range(900)])
    seen = engine.queries.log_part(RUN).end
    engine.store.runs.append_logs(RUN, [an_entry(str(n)) for n in range(900, 1_200)], dropped=5)

    after = engine.queries.log_part(RUN, seen)

    assert [entry["text"] for entry in after.entries] == [str(n) for n in range(900, 1_200)]
    assert engine.queries.log_part(RUN, after.end).entries == []
    # Somebody who was away for longer gets what is left.
    assert len(engine.queries.log_part(RUN, 10).entries) == 1_000


def an_entry(text: str) -> str:
    return json.dumps({"step": 1, "node": "s", "index": None, "stream": "stderr", "text": text})


def test_one_piece_of_output_over_the_limit_drops_all_and_itself(engine: Engine) -> None:
    engine.configure(log_limit_bytes=64 * 1024)
    started(engine)
    engine.store.runs.append_logs(RUN, ['{"node":"s"}'])

    engine.store.runs.append_logs(RUN, [f'{{"text":"{noise(100_000, 1)}"}}'])
    engine.store.runs.append_logs(RUN, ['{"node":"t"}'])

    assert [entry["node"] for entry in engine.queries.logs(RUN)] == ["t"]
    assert engine.queries.logs_dropped(RUN) == 2


def test_narration_is_capped(engine: Engine) -> None:
    engine.configure(narration_limit=10)
    started(engine)

    for _ in range(500):
        engine.store.runs.narrate(RUN, QuestionAnswered("s"))

    length = engine.redis.xlen(f"{{p01}}:events:{RUN}")
    assert isinstance(length, int)
    assert length < 200


# ---- bundles


def test_a_bundle_comes_back_byte_for_byte(engine: Engine) -> None:
    engine.store.bundles.put("d" * 64, b"\x00\xff\n")

    assert engine.store.bundles.get("d" * 64) == b"\x00\xff\n"
    assert engine.store.bundles.get("e" * 64) is None


def test_a_bundle_goes_when_no_run_uses_it_any_more(engine: Engine) -> None:
    engine.store.bundles.put(DIGEST, b"used")
    engine.store.bundles.put("e" * 64, b"unused")
    engine.store.runs.submit(a_run())

    while_used = engine.store.bundles.remove_unused(timedelta(0), 10)
    engine.store.runs.close(RUN, "cancelled", Failure("cancelled", "enough", None))
    while_kept = engine.store.bundles.remove_unused(timedelta(0), 10)
    engine.clock.move(RETENTION_S)
    engine.tick()
    afterwards = engine.store.bundles.remove_unused(timedelta(0), 10)

    assert (while_used, while_kept, afterwards) == (1, 0, 1)
    assert engine.store.bundles.get(DIGEST) is None


def test_a_bundle_stays_that_an_open_run_may_yet_start(engine: Engine) -> None:
    engine.store.bundles.put("e" * 64, b"of another agent")
    context = RunContext(root=RUN, agents={"other": "e" * 64})
    engine.store.runs.submit(a_run(context=context))

    assert engine.store.bundles.remove_unused(timedelta(0), 10) == 0
    engine.store.runs.close(RUN, "cancelled", Failure("cancelled", "enough", None))
    assert engine.store.bundles.remove_unused(timedelta(0), 10) == 1


def test_a_bundle_just_put_is_left_for_the_run_to_come(engine: Engine) -> None:
    engine.store.bundles.put(DIGEST, b"soon used")

    assert engine.store.bundles.remove_unused(timedelta(days=1), 10) == 0


def test_a_used_bundle_does_not_keep_the_sweep_from_later_ones(engine: Engine) -> None:
    engine.store.bundles.put(DIGEST, b"used")
    engine.store.bundles.put("e" * 64, b"unused")
    engine.store.runs.submit(a_run())

    assert engine.store.bundles.remove_unused(timedelta(0), limit=1) == 1


def test_a_step_that_ends_a_run_early_leaves_no_visits(engine: Engine) -> None:
    fanned_out(engine, "a", "b", "c", window=1)
    stage(engine, "2/a")

    engine.store.runs.close(RUN, "cancelled", Failure("cancelled", "enough", None))

    assert not engine.redis.exists(
        *(f"{{p01}}:{kind}:{RUN}" for kind in ("visits", "pending", "questions"))
    )
    assert engine.redis.zrange("{p01}:timers", 0, -1) == [f"expiry {RUN}"]
