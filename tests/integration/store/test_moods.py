"""Redis refuses for a while: patient clients wait, and nothing is done twice for it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import pytest
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    NoScriptError,
    RedisError,
    ResponseError,
    TimeoutError,
)

from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.errors import EngineUnreachable
from sleipnir.scheduler.runs.model import Lease
from sleipnir.scheduler.store.clients.transient import is_transient
from sleipnir.scheduler.store.connection import connect
from sleipnir.scheduler.store.dispatch import DirectDispatcher
from sleipnir.scheduler.store.run_store import RunStore
from tests.support.invariants import assert_consistent
from tests.support.moods import MOODS, refusing
from tests.support.redis_server import RedisServer
from tests.support.runs import RUN, a_run, go_to
from tests.support.wait import wait_until
from tests.support.workers import Workers

_BY_ANOTHER_SCRIPT = "Error running script (call to f_1): @user_script:1: @user_script: 1: "


@pytest.fixture(scope="module")
def moody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server whose configuration may be changed."""
    with RedisServer(tmp_path_factory.mktemp("moody")) as server:
        yield server


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (ResponseError("BUSY Redis is busy running a script. You can only call"), True),
        (ResponseError("NOREPLICAS Not enough good replicas to write."), True),
        (ResponseError("UNBLOCKED force unblock from blocking operation, instance state"), True),
        (ResponseError("MISCONF Errors writing to the AOF file: No space left on device"), True),
        (ResponseError(f"{_BY_ANOTHER_SCRIPT}-READONLY You can't write against a read"), True),
        (ResponseError("Command # 1 (SET k v) of pipeline caused error: BUSY Redis is"), True),
        (BusyLoadingError("Redis is loading the dataset in memory"), True),
        (TimeoutError("Timeout reading from socket"), True),
        (ResponseError("Command # 1 (SET k : BUSY ) of pipeline caused error: ERR no"), False),
        (ResponseError("WRONGTYPE Operation against a key holding the wrong kind"), False),
        (NoPermissionError("this user has no permissions to run the 'set' command"), False),
        (NoScriptError("No matching script"), False),
        (AuthenticationError("invalid username-password pair"), False),
        (ValueError("BUSY "), False),
    ],
)
def test_what_may_pass_is_told_from_what_will_not(error: Exception, transient: bool) -> None:
    assert is_transient(error) is transient


@pytest.mark.parametrize("mood", MOODS)
def test_a_store_that_retries_outages_waits_for_a_mood_to_pass(
    mood: str, moody: RedisServer
) -> None:
    with connect(moody.url) as brief, connect(moody.url, retry_outage=True) as retrying:
        brief.flushall()
        store = RunStore(retrying, Settings(), DirectDispatcher())
        store.runs.submit(a_run())
        lease = Lease(RUN, "1/s", "t1")
        store.visits.begin(lease, None)

        with ThreadPoolExecutor(1) as worker:
            with refusing(moody.url, mood):
                advancing = worker.submit(
                    store.visits.advance, lease, 1, go_to("n", k="1"), cap=9, window=8
                )
                with pytest.raises(RedisError):
                    RunStore(brief, Settings(), DirectDispatcher()).runs.submit(
                        a_run("02" + RUN[2:])
                    )
                waited = not advancing.done()
            status = advancing.result(timeout=120).status

        assert (waited, status) == (True, "running")


def test_who_connects_meanwhile_is_told_that_it_is_a_mood(moody: RedisServer) -> None:
    with refusing(moody.url, "busy"), pytest.raises(EngineUnreachable) as raised:
        connect(moody.url)

    assert "cannot serve requests now: BUSY" in str(raised.value)


# Each is a worker's start and some seconds; what differs is what Celery is told.
@pytest.mark.parametrize(
    "mood",
    [
        "demoted",
        *(pytest.param(mood, marks=pytest.mark.chaos) for mood in MOODS if mood != "demoted"),
    ],
)
def test_a_finished_node_is_committed_afterwards_and_not_run_again(
    mood: str, moody: RedisServer, tmp_path: Path, own_directories: None
) -> None:
    script = "echo >> began; until [ -e go ]; do sleep 0.05; done; touch done; echo '{}'"
    with connect(moody.url) as client, Workers(moody.url, client, tmp_path) as workers:
        client.flushall()
        worker = workers.start("--scheduler", lease_s=1, max_deliveries=1)
        run_id = workers.submit(
            "start: s\nnodes:\n  s: {type: script, script: s.sh, next: z}\n"
            "  z: {type: end, output: well}\n",
            {"s.sh": script},
            workdir=str(tmp_path),
        )
        wait_until(lambda: (tmp_path / "began").exists(), "the script runs", 60)

        with refusing(moody.url, mood):
            (tmp_path / "go").touch()
            wait_until(lambda: (tmp_path / "done").exists(), "the script has ended", 60)
            until = monotonic() + 3  # the lease lapses, and its one try is not lost by it
            wait_until(lambda: monotonic() > until, "it stays like that for a while", 60)

        wait_until(lambda: workers.queries.run(run_id).is_final, "the run is over", 120)
        assert workers.queries.run(run_id).output == "well"
        assert len((tmp_path / "began").read_text().splitlines()) == 1
        assert worker.is_running()
        assert_consistent(client, runs=1)
