"""`sleipnir hook`: schedulers send events, whichever of them dies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import Sleipnir
from tests.support.hooks import hook_key, verified
from tests.support.services import Fleet
from tests.support.wait import wait_until
from tests.support.web_server import Page, WebServer

GRAPH = """
start: done
nodes: {done: {type: end, output: fine}}
"""


@pytest.fixture
def receiver() -> Iterator[WebServer]:
    with WebServer({"/in": Page("thanks"), "/own": Page("thanks")}) as server:
        yield server


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        fleet.sleipnir.environment |= {
            "SLEIPNIR_HOOK_KEY_FILE": hook_key(tmp_path),
            "SLEIPNIR_ALLOW_PRIVATE_ADDRESSES": "true",
        }
        fleet.sleipnir.write("tested", GRAPH)
        fleet.start_scheduler()
        fleet.start_worker()
        yield fleet


def test_a_hook_is_made_tried_and_told_of_runs(fleet: Fleet, receiver: WebServer) -> None:
    sleipnir = fleet.sleipnir

    made = sleipnir("hook", "create", "default", receiver.url("/in"))
    tried = sleipnir("hook", "test", "default")
    run = sleipnir("run", "-q", "tested", "--webhook", receiver.url("/own"))
    wait_until(lambda: len(receiver.visits) >= 4, "all has arrived")
    listed = sleipnir("hook", "deliveries", "default", "--json")

    secret = made.stdout.strip()
    assert (tried.returncode, "the reply is 200" in tried.stderr) == (0, True)
    assert run.stdout == "fine\n"
    told = {(visit.target, verified(visit, secret)["type"]) for visit in receiver.visits}
    assert told == {
        ("/in", "hook.test"),
        ("/in", "run.succeeded"),
        ("/own", "run.started"),
        ("/own", "run.succeeded"),
    }
    assert all(json.loads(line)["delivered"] for line in listed.stdout.splitlines())


def test_a_receiver_that_is_not_there_is_said(fleet: Fleet) -> None:
    sleipnir, chosen = fleet.sleipnir, ("--agent", "a", "--batch", "b", "--label", "team=a")
    sleipnir("hook", "create", "ops", "http://127.0.0.1:9/in", *chosen)

    tried = sleipnir("hook", "test", "ops")
    less = sleipnir("hook", "edit", "ops", "--batch", "", "--label", "", "--json")

    assert tried.returncode == 1
    assert "not delivered: no reply" in tried.stderr
    assert json.loads(less.stdout)["filter"] == {"agent": "a", "batch": None, "label": {}}


def test_people_are_notified_of_runs(tmp_path: Path, receiver: WebServer) -> None:
    url = f"json://127.0.0.1:{receiver.port}/in"
    with Fleet(tmp_path) as fleet:
        fleet.sleipnir.environment["SLEIPNIR_NOTIFY"] = json.dumps([{"url": url}])
        fleet.sleipnir.write("tested", GRAPH)
        fleet.start_scheduler()
        fleet.start_worker()
        fleet.sleipnir("run", "-q", "tested")
        wait_until(lambda: bool(receiver.visits), "the notification has arrived")

    (visit,) = receiver.visits
    assert json.loads(visit.body)["title"] == "tested has succeeded"


def test_doctor_shows_whom_it_notifies_without_secrets(tmp_path: Path) -> None:
    entry = {"url": "json://user:s3cretpart@127.0.0.1/in", "filter": {"label": {"team": "a"}}}
    with Fleet(tmp_path) as fleet:
        fleet.sleipnir.environment["SLEIPNIR_NOTIFY"] = json.dumps([entry])
        done = fleet.sleipnir("doctor")

    lines = [line.split()[:2] for line in done.stdout.splitlines()]
    assert ["notify.0.url", "**********"] in lines
    assert ["notify.0.filter.label.team", "a"] in lines
    assert "s3cretpart" not in done.stdout + done.stderr


@pytest.mark.parametrize("verb", [("scheduler",), ("up", "--no-monitor"), ("doctor",)])
def test_what_cannot_be_notified_is_refused_at_the_start(
    tmp_path: Path, verb: tuple[str, ...]
) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.sleipnir.environment["SLEIPNIR_NOTIFY"] = '[{"url": "slack://s3cretpart"}]'
        done = fleet.sleipnir(*verb)

    assert done.returncode != 0
    assert "notify.0.url: Apprise cannot use 'slack://…'" in done.stdout + done.stderr
    assert "this is a bug" not in done.stderr
    assert "s3cretpart" not in done.stdout + done.stderr


def test_the_embedded_engine_refuses_what_cannot_be_notified(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path)
    sleipnir.environment["SLEIPNIR_NOTIFY"] = '[{"url": "slack://s3cretpart"}]'
    sleipnir.write("tested", GRAPH)

    done = sleipnir("run", "-q", "tested")

    assert done.returncode == 2
    assert "notify.0.url: Apprise cannot use 'slack://…'" in done.stderr
