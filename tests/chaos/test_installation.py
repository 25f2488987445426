"""An installation by the manual and the files of deploy/ alone, every part of which dies once."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest

from sleipnir import Client
from sleipnir.scheduler.store.connection import connect
from tests.support.certificates import PrivateCA
from tests.support.command_line import Sleipnir
from tests.support.model_server import ModelServer, Reply, Script, says
from tests.support.redis_server import RedisServer
from tests.support.sentinels import free_ports
from tests.support.systemd import Host
from tests.support.tls_door import TlsDoor, url_of_manual
from tests.support.wait import wait_until

LINES, WAITING = 60, 8  # of a batch; and those whose model replies at the end
PASSWORD, LOGIN = "pa:ss@w/rd", "ada:secret"
GRAPH = """
start: ask
nodes:
  ask: {type: llm, model: "openai:m", prompt: "Say {{initial_prompt}}", next: note,
        state_updates: {said: "{{output}}"}}
  note: {type: script, script: note.sh, next: each}
  each: {type: map, over: "{{places}}", as: place, branch: look, collect_into: seen, next: done}
  look: {type: script, script: note.sh, state_updates: {output: "{{place}}"}}
  done: {type: end, output: "{{said}} {{seen}}"}
initial_state: {places: [here, there]}
"""
NOTE = "sleep 0.2; echo '{}'"
OUTPUT, VISITS = 'Well. ["here","there"]', {"ask": 1, "note": 1, "each": 1, "done": 1}


class Installation:
    """Two machines that execute, two that look after time, a monitor, and Redis behind TLS."""

    def __init__(self, directory: Path, models: ModelServer, stack: ExitStack) -> None:
        users = directory / "users.acl"
        users.touch()
        self.redis = stack.enter_context(RedisServer(directory / "redis", "--aclfile", str(users)))
        ca = PrivateCA(directory / "ca")
        door = stack.enter_context(TlsDoor(ca, self.redis.socket_file))
        url = url_of_manual(ca, door, PASSWORD)
        self.desk = Sleipnir(directory / "desk", SLEIPNIR_REDIS_URL=url, SLEIPNIR_PIN="never")
        self._make_user()
        environment = {
            "OPENAI_API_KEY": "sk-only-for-this-test",
            "OPENAI_BASE_URL": models.base_url,
            "SLEIPNIR_AGENTS_DIR": str(self.desk.project / "agents"),
            "SLEIPNIR_MONITOR_AUTH": LOGIN,
            # So that the test need not wait 15 s for what a dead machine had begun.
            "SLEIPNIR_LEASE_S": "2",
        }
        (self.port,) = free_ports(1)
        hosts = {n: Host(directory / n, url, environment) for n in ("north", "south", "desk-1")}
        self.units = [
            hosts["north"].start("scheduler"),
            hosts["south"].start("scheduler"),
            hosts["north"].start("worker"),
            hosts["south"].start("worker"),
            hosts["desk-1"].start("monitor", "--port", str(self.port)),
        ]
        for unit in self.units:
            stack.callback(unit.close)

    def _make_user(self) -> None:
        """Make the user by the rule that `doctor` prints, to last over a restart."""
        shown = self.desk("doctor", "--json", "--redis", self.redis.url).stdout
        (check,) = [c for c in json.loads(shown)["checks"] if c["name"] == "Redis user"]
        rule = check["remedy"].partition(": ")[2]
        words = rule.replace("NAME", "runs").replace("PASSWORD", PASSWORD).split()
        with connect(self.redis.url) as admin:
            admin.execute_command(*words)
            admin.execute_command("ACL", "SAVE")

    def restart_redis(self) -> None:
        self.redis.kill()
        self.redis.start()


class Submitter:
    """A program that submits through the monitor, and repeats what was not answered."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._submit_all)
        self.accepted: list[str] = []  # run ids

    def __enter__(self) -> Submitter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(60)

    def goes_on(self) -> None:
        """Wait until two more submissions, one of which begins now, are accepted."""
        known = len(self.accepted)
        wait_until(lambda: len(self.accepted) >= known + 2, "submissions go on")

    def _submit_all(self) -> None:
        while not self._is_over.wait(0.1):
            body = {"agent": "tested", "prompt": "well", "key": f"k{len(self.accepted)}"}
            status, document = ask(self._port, "POST", "/api/v1/runs", json.dumps(body))
            if status in (200, 201):
                self.accepted.append(document["run_id"])


def ask(port: int, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
    """Return the status and document of a reply of the monitor; status 0 if there is none."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    login = {"Authorization": f"Basic {b64encode(LOGIN.encode()).decode()}"}
    try:
        connection.request(method, path, body, login)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    except (OSError, HTTPException, json.JSONDecodeError):
        return 0, None
    finally:
        connection.close()


@pytest.fixture
def released() -> threading.Event:
    """What the model waits for before it replies to prompts that say `wait`."""
    return threading.Event()


@pytest.fixture
def installation(tmp_path: Path, released: threading.Event) -> Iterator[Installation]:
    well = says("Well.", delay_s=0.3)
    script = Script(otherwise=well)

    def once_released(_: object) -> Reply:
        released.wait()
        return well

    script.when(lambda request: "wait" in request.text, once_released)
    with ModelServer(script=script) as models, ExitStack() as stack:
        stack.callback(released.set)
        yield Installation(tmp_path, models, stack)


@pytest.mark.timeout(400)
def test_nothing_is_lost_when_every_part_dies_once_under_load(
    installation: Installation, released: threading.Event, tmp_path: Path
) -> None:
    desk, units = installation.desk, installation.units
    desk.write("tested", GRAPH, {"note.sh": NOTE})
    prompts = [*["wait"] * WAITING, *["well"] * (LINES - WAITING)]
    lines = [json.dumps({"id": str(n), "prompt": text}) for n, text in enumerate(prompts)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    batch = desk.start("batch", "tested", str(tmp_path / "in.jsonl"), "--quiet")

    with Submitter(installation.port) as submitter:
        submitter.goes_on()
        for replace in (*(unit.kill_and_restart for unit in units), installation.restart_redis):
            replace()
            submitter.goes_on()
    released.set()
    output, errors = batch.communicate(timeout=200)

    assert batch.returncode == 0, errors
    ended = [json.loads(line) for line in output.splitlines()]
    assert Counter(line["id"] for line in ended) == Counter(map(str, range(LINES)))
    assert len(set(submitter.accepted)) == len(submitter.accepted)
    run_ids = [*(line["run_id"] for line in ended), *submitter.accepted]
    every_run_ended_once(desk.environment["SLEIPNIR_REDIS_URL"], run_ids)
    verified = desk("doctor", "--verify")
    checked = len(run_ids)
    assert verified.stderr == f"{checked} runs checked, 0 violations\n"
    assert [unit.stop() for unit in units] == [0] * len(units)


def every_run_ended_once(url: str, run_ids: list[str]) -> None:
    with Client(url) as client:
        for run_id in run_ids:
            run = client.wait(run_id)
            assert (run.status, run.output, dict(run.visits)) == ("succeeded", OUTPUT, VISITS)
            kinds = Counter(entry.event.kind for entry in client.events(run_id))
            assert kinds["ended"] == 1
