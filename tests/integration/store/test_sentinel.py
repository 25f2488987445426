"""Redis behind Sentinel: which server it is may change while runs are under way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sleipnir import AsyncClient
from sleipnir.scheduler.errors import EngineUnreachable
from sleipnir.scheduler.store.connection import connect, kombu_url, masked, transport_options
from sleipnir.scheduler.store.machines import Machines
from sleipnir.scheduler.store.sentinels import SentinelUrl
from tests.support.command_line import Sleipnir
from tests.support.on_asyncio import run_in_thread
from tests.support.sentinels import PASSWORD, SERVICE, Watched
from tests.support.wait import wait_until
from tests.support.workers import Workers

URL = "sentinel://user:s%40me@one:26379,two,[::1]:7/my%2Fservice/3?sentinel_password=other"
GRAPH = """
start: a
nodes:
  a: {type: script, script: s.sh, next: b}
  b: {type: script, script: s.sh, next: z}
  z: {type: end, output: well}
"""
# The first of the two waits until it is let go.
SCRIPT = "echo >> began; until [ -e go ]; do sleep 0.05; done; echo '{}'"


def test_a_url_says_whom_to_ask_for_what() -> None:
    url = SentinelUrl.parse(URL)

    assert url.addresses == (("one", 26379), ("two", 26379), ("::1", 7))
    assert (url.service, url.db) == ("my/service", 3)
    assert (url.username, url.password) == ("user", "s@me")
    assert url.of_sentinels == {"password": "other"}


def test_kombu_gets_a_url_for_each_sentinel_and_the_service_as_an_option() -> None:
    assert kombu_url(URL) == (
        "sentinel://user:s%40me@one:26379/3;sentinel://user:s%40me@two:26379/3;"
        "sentinel://user:s%40me@[::1]:7/3"
    )
    assert transport_options(URL)["master_name"] == "my/service"
    assert transport_options(URL)["sentinel_kwargs"]["password"] == "other"
    assert transport_options("redis://one:6379") == {}


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("sentinel://:secret@one:26379", "the name of the service is missing"),
        ("sentinel://:secret@one:26379,/service", "'' is not a valid HOST:PORT"),
        ("sentinel://:secret@one:port/service", "'one:port' is not a valid HOST:PORT"),
        ("sentinel://:secret@one:26379/service/first", "'first' is not a valid database number"),
        ("sentinel://:secret@one/service?ssl=true", "has no option 'ssl'"),
    ],
)
def test_a_url_that_cannot_be_used_says_why(url: str, complaint: str) -> None:
    with pytest.raises(EngineUnreachable) as raised:
        connect(url)

    assert complaint in str(raised.value)
    assert "secret" not in str(raised.value)


def test_passwords_are_masked() -> None:
    assert masked(URL) == (
        "sentinel://user:***@one:26379,two,[::1]:7/my%2Fservice/3?sentinel_password=***"
    )


@pytest.fixture
def watched(tmp_path: Path, own_directories: None) -> Iterator[Watched]:
    """Servers with one sentinel."""
    with Watched(tmp_path, 1) as started:
        yield started


@pytest.mark.parametrize(
    ("sentinels", "end_of_primary"),
    [
        (1, Watched.kill_primary),
        pytest.param(3, Watched.kill_primary, marks=pytest.mark.chaos),
        pytest.param(1, Watched.demote_primary, marks=pytest.mark.chaos),
    ],
)
def test_runs_go_on_with_another_primary(
    sentinels: int,
    end_of_primary: Callable[[Watched], None],
    tmp_path: Path,
    own_directories: None,
) -> None:
    with (
        Watched(tmp_path, sentinels) as watched,
        connect(watched.url, retry_outage=True) as client,
        Workers(watched.url, client, tmp_path) as workers,
    ):
        worker = workers.start("--scheduler", lease_s=2)
        run_id = workers.submit(GRAPH, {"s.sh": SCRIPT}, workdir=str(tmp_path))
        wait_until(lambda: (tmp_path / "began").exists(), "the script runs", 60)
        # What the replica has not received is lost with the primary: that is Redis' promise.
        wait_until(lambda: client.wait(1, 1000) == 1, "the replica has it all", 60)

        end_of_primary(watched)
        (tmp_path / "go").touch()

        wait_until(lambda: workers.queries.run(run_id).is_final, "the run is over", 90)
        assert workers.queries.run(run_id).output == "well"
        assert worker.is_running()
        assert PASSWORD not in worker.log.read_text()
        found = wait_until(lambda: Machines(client).workers(), "the worker says it is there", 60)
        assert len(found) == 1
        assert client.connection_pool.connection_kwargs["db"] == 1


def test_a_service_that_no_sentinel_knows_is_named(watched: Watched) -> None:
    with pytest.raises(EngineUnreachable, match=r"a primary of 'another': .* does not know it"):
        connect(watched.url.replace(SERVICE, "another"))


def test_programs_on_asyncio_find_the_primary_too(watched: Watched, tmp_path: Path) -> None:
    agent = tmp_path / "agents" / "ends"
    agent.mkdir(parents=True)
    (agent / "graph.yaml").write_text("name: ends\nstart: z\nnodes:\n  z: {type: end}\n")

    async def program() -> bool:
        async with AsyncClient(watched.url, agents_dir=[agent.parent]) as client:
            return await client.cancel(await client.submit("ends"))

    assert run_in_thread(program())


def test_commands_and_monitor_take_the_url(watched: Watched, tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path / "cli", SLEIPNIR_REDIS_URL=watched.url)
    sleipnir.write("ends", "start: z\nnodes:\n  z: {type: end}\n")

    submitted = sleipnir("submit", "ends")
    found = sleipnir("show", submitted.stdout.strip())
    monitor = sleipnir.start("monitor", "--port", "0")

    assert submitted.returncode == 0, submitted.stderr
    assert "status   queued" in found.stdout
    assert monitor.stderr is not None
    assert "monitor of sentinel://:***@" in monitor.stderr.readline()
    monitor.terminate()
    monitor.communicate(timeout=60)
