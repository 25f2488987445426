"""Notifications: what `notify` names is told of events by Apprise, in texts of ours."""

from __future__ import annotations

import importlib.util
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from sleipnir.scheduler.client.hooks.notifications import (
    MOST_NOTIFICATIONS,
    require_notifications,
    store_notifications,
)
from sleipnir.scheduler.config.notify import NotifyFilter, NotifySettings
from sleipnir.scheduler.errors import SettingInvalid, SubmissionRefused
from sleipnir.scheduler.hooks.messages import message_of
from sleipnir.scheduler.runs.hooks.model import ENDS, EVENTS
from tests.support.engine import Engine
from tests.support.hooks import attempts, deliver_all, delivering, hook_key, open_deliveries
from tests.support.web_server import Page, WebServer

GRAPH = "start: done\nnodes: {done: {type: end, output: fine}}"
ASKING = """
start: ask
nodes:
  ask: {type: approval, options: ["yes", "no"],
        question: "Merge?\\nTell @everyone <!here> [ok](https://a.example)",
        routes: {"yes": done, "no": done}, on_other: done}
  done: {type: end, output: fine}
"""


@pytest.fixture(autouse=True)
def empty_afterwards(engine: Engine) -> Iterator[None]:
    yield
    engine.redis.flushall()


@pytest.fixture
def receiver() -> Iterator[WebServer]:
    with WebServer({"/in": Page("thanks"), "/other": Page("thanks")}) as server:
        yield server


def entry(server: WebServer, *events: str, path: str = "/in", **chosen: Any) -> NotifySettings:
    """One entry of `notify`, whose service is a JSON document by HTTP."""
    url = SecretStr(f"json://user:passw0rd@127.0.0.1:{server.port}{path}")
    return NotifySettings(url=url, events=events, filter=NotifyFilter(**chosen))


def notifying(engine: Engine, *entries: NotifySettings, **settings: Any) -> str:
    """Configure notifications, and start as a scheduler does; return the name of the first."""
    engine.configure(notify=entries, **settings)
    store_notifications(engine.store)
    return next(iter(engine.client.hooks.list())).name


def told(server: WebServer) -> list[dict[str, Any]]:
    """What arrived, in order."""
    return [json.loads(visit.body) for visit in server.visits]


def test_the_end_of_a_run_is_told_with_a_link(engine: Engine, receiver: WebServer) -> None:
    notifying(engine, entry(receiver), monitor_public_url="https://runs.example/")

    with delivering(engine) as scheduler:
        run = engine.finish(GRAPH)
        deliver_all(engine, scheduler)

    (message,) = told(receiver)
    assert message["title"] == f"{run.agent} has succeeded"
    assert message["message"].splitlines() == [
        f"{run.agent} has succeeded.",
        f"Run: {run.run_id}",
        f"See https://runs.example/runs/{run.run_id}",
    ]
    assert message["type"] == "success"


def test_a_question_is_told_as_plain_text_with_a_link_to_answer(
    engine: Engine, receiver: WebServer, tmp_path: Path
) -> None:
    key = hook_key(tmp_path)
    public = "https://runs.example"
    notifying(engine, entry(receiver, "question.*"), monitor_public_url=public, hook_key_file=key)

    with delivering(engine) as scheduler:
        engine.finish(ASKING)
        deliver_all(engine, scheduler)

    lines = told(receiver)[0]["message"].splitlines()
    assert lines[1:3] == [
        "Question: Merge? Tell @\u200beveryone <\u200b!here> [ok]\u200b(https://a.example)",
        "Options: yes, no",
    ]
    assert lines[-1].startswith(f"Answer at {public}/a/")


def test_filters_choose_who_is_told(engine: Engine, receiver: WebServer) -> None:
    notifying(
        engine,
        entry(receiver, "run.succeeded", label={"team": "a"}),
        entry(receiver, "run.succeeded", path="/other", batch="nightly"),
    )

    with delivering(engine) as scheduler:
        engine.finish(GRAPH, labels={"team": "b"})
        wanted = engine.finish(GRAPH, labels={"team": "a"})
        deliver_all(engine, scheduler)

    (visit,) = receiver.visits
    assert (visit.target, wanted.run_id in visit.body.decode()) == ("/in", True)


def test_a_notification_that_fails_is_sent_again(engine: Engine, receiver: WebServer) -> None:
    receiver.pages["/in"] = Page("no", status=500)
    name = notifying(engine, entry(receiver))

    with delivering(engine) as scheduler:
        engine.finish(GRAPH)
        (failed,) = attempts(engine, scheduler, name, 1)
        receiver.pages["/in"] = Page("thanks")
        engine.clock.move(6)
        delivered, _ = attempts(engine, scheduler, name, 2)

    assert "500" in failed.problem
    assert "passw0rd" not in failed.problem
    assert (delivered.is_delivered, delivered.number) == (True, 2)
    assert delivered.event_id == failed.event_id
    assert open_deliveries(engine) == 0


def test_redis_has_no_secrets_of_notifications(engine: Engine, receiver: WebServer) -> None:
    name = notifying(engine, entry(receiver))

    (hook,) = engine.client.hooks.list()
    assert (hook.name, hook.url, hook.events) == (name, "json://…", ENDS)
    assert name.startswith("notify.json.")
    stored = [
        *engine.redis.hgetall("sleipnir:hooks").values(),
        *(engine.redis.get(key) or "" for key in engine.redis.keys("*:hooks") if "{p" in key),
    ]
    assert stored
    assert not [text for text in stored if "passw0rd" in text]


def test_what_is_no_longer_configured_is_told_no_more(engine: Engine, receiver: WebServer) -> None:
    first = notifying(engine, entry(receiver), entry(receiver, path="/other"))
    engine.client.hooks.list()

    engine.configure(notify=(entry(receiver),))
    store_notifications(engine.store)
    kept = [hook.name for hook in engine.client.hooks.list()]
    engine.configure()
    store_notifications(engine.store)

    assert len(kept) == 1
    assert first.startswith("notify.json.")
    assert not engine.client.hooks.list()
    assert engine.store.hooks.is_announced()


def test_a_start_changes_nothing_that_is_stored_already(
    engine: Engine, receiver: WebServer
) -> None:
    notifying(engine, entry(receiver))
    before = engine.client.hooks.list()
    engine.clock.move(100)

    store_notifications(engine.store)

    assert engine.client.hooks.list() == before


def test_a_scheduler_that_does_not_know_a_notification_leaves_it_to_others(
    engine: Engine, receiver: WebServer
) -> None:
    name = notifying(engine, entry(receiver))
    engine.configure()

    with delivering(engine) as scheduler:
        engine.finish(GRAPH)
        (attempt,) = attempts(engine, scheduler, name, 1)

    assert "not in `notify`" in attempt.problem
    assert attempt.next_ms is not None


ENDING = """
import sys
from pydantic import SecretStr
from sleipnir.scheduler.client.hooks.notifications import notification_urls
from sleipnir.scheduler.config.notify import NotifySettings
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.hooks.notifier import Notifier

settings = Settings(notify=(NotifySettings(url=SecretStr(sys.argv[1])),))
(name,) = notification_urls(settings)
body = b'{"type": "hook.test", "data": {"hook": "x"}}'
notifier = Notifier(settings, total_s=0.2)
print(*(notifier.send(name, body).problem for _ in range(3)), sep="\\n")
"""


def test_a_receiver_that_never_ends_holds_up_nothing(receiver: WebServer) -> None:
    receiver.pages["/in"] = Page(drips=True)
    url = entry(receiver).url.get_secret_value()
    ended = subprocess.run(
        [sys.executable, "-c", ENDING, url], capture_output=True, text=True, timeout=60
    )

    assert ended.stdout.splitlines() == [
        "no reply within 0 s",
        "no reply within 0 s",
        "not sent: earlier attempts have not ended yet",
    ]
    assert ended.returncode == 0


def test_logs_have_no_secrets_however_much_is_logged(
    engine: Engine, receiver: WebServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    name = notifying(engine, entry(receiver, path="/s3cretpart"))

    with delivering(engine) as scheduler:
        engine.finish(GRAPH)
        attempts(engine, scheduler, name, 1)

    assert [visit.target for visit in receiver.visits] == ["/s3cretpart"]
    assert "passw0rd" not in caplog.text
    assert "s3cretpart" not in caplog.text


def test_a_notification_can_be_tried_but_not_changed(engine: Engine, receiver: WebServer) -> None:
    name = notifying(engine, entry(receiver))
    hooks = engine.client.hooks

    with delivering(engine) as scheduler:
        hooks.test(name)
        deliver_all(engine, scheduler)

    assert told(receiver)[0]["title"] == f"A test of {name}"
    for change in (
        lambda: hooks.edit(name, {"enabled": False}),
        lambda: hooks.rotate(name),
        lambda: hooks.delete(name),
        lambda: hooks.create("notify.mine", {"url": "https://a.example"}),
    ):
        with pytest.raises(SubmissionRefused, match="change it there"):
            change()


def test_a_start_enables_a_notification_that_failed_for_too_long(
    engine: Engine, receiver: WebServer
) -> None:
    receiver.pages["/in"] = Page("no", status=500)
    name = notifying(engine, entry(receiver))

    with delivering(engine) as scheduler:
        engine.finish(GRAPH)
        attempts(engine, scheduler, name, 1)
        engine.clock.move(6 * 86_400)
        attempts(engine, scheduler, name, 2)
    disabled = engine.client.hooks.get(name).disabled
    store_notifications(engine.store)

    assert disabled is not None
    assert engine.client.hooks.get(name).disabled is None
    assert engine.client.hooks.figures()[name].failing_since_ms is None


@pytest.mark.parametrize(
    ("url", "events", "problem"),
    [
        ("nothing://x/s3cretpart", (), r"notify\.0\.url: Apprise cannot use 'nothing://…'"),
        ("s3cretpart", (), r"notify\.0\.url: Apprise cannot use 'unknown://…'"),
        ("slack://s3cretpart", (), r"notify\.0\.url"),
        ("json://127.0.0.1/s3cretpart", ("run.ended",), r"notify\.0: there is no event"),
    ],
)
def test_what_cannot_be_sent_is_refused_at_the_start(
    engine: Engine,
    url: str,
    events: tuple[str, ...],
    problem: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine.configure(notify=(NotifySettings(url=SecretStr(url), events=events),))

    with pytest.raises(SettingInvalid, match=problem) as refused:
        store_notifications(engine.store)
    assert "s3cretpart" not in str(refused.value) + caplog.text


def test_without_the_extra_the_start_is_refused(
    engine: Engine, receiver: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    engine.configure(notify=(entry(receiver),))

    with pytest.raises(SettingInvalid, match=r"pip install 'sleipnir\[notify\]'"):
        require_notifications(engine.store.settings)


def test_there_is_a_greatest_number_of_notifications(engine: Engine, receiver: WebServer) -> None:
    paths = [f"/{number}" for number in range(MOST_NOTIFICATIONS + 1)]
    engine.configure(notify=tuple(entry(receiver, path=path) for path in paths))

    with pytest.raises(SettingInvalid, match="17 entries; 16 are allowed"):
        require_notifications(engine.store.settings)


def test_the_same_notification_twice_is_refused(engine: Engine, receiver: WebServer) -> None:
    engine.configure(notify=(entry(receiver, "run.failed"), entry(receiver, "run.started")))

    with pytest.raises(SettingInvalid, match="the same URL and filter"):
        require_notifications(engine.store.settings)


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_has_a_headline_that_names_what_it_is_about(event: str) -> None:
    data = dict.fromkeys(("agent", "batch", "budget", "name"), "it")

    assert "it" in message_of({"type": event, "data": data}).title.split()


def test_figures_of_batches_and_budgets_are_told() -> None:
    counts = {"lines": 1_000, "runs": 9, "removed": 1, "failed": 3, "cancelled": 1, "timed_out": 0}
    batch = message_of({"type": "batch.finished", "data": {"batch": "b", **counts}})
    of_unknown_size = {"batch": "b", **counts, "lines": None}
    other = message_of({"type": "batch.finished", "data": of_unknown_size})
    spent = {"limit_usd": 2.0, "spent_usd": 1.9, "limit_tokens": 5_000, "spent_tokens": 4_800}
    budget = message_of({"type": "budget.used_up", "data": {"budget": "day", **spent}})

    assert "Lines: 1,000, of which 4 have not succeeded" in batch.text
    assert "Runs: 10, of which 4 have not succeeded" in other.text
    assert "Spent: $1.9000 of $2.0000\nTokens: 4,800 of 5,000" in budget.text
