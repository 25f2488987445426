"""Redis over TLS with a private CA and client certificates: every process takes the same URL."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import parse_qsl, urlencode
from urllib.request import Request, urlopen

import pytest

from sleipnir import AsyncClient
from sleipnir.scheduler.doctor.permissions import rule
from sleipnir.scheduler.errors import EngineUnreachable
from sleipnir.scheduler.store.clients.tls import UNCHECKED, tls_options
from sleipnir.scheduler.store.connection import connect, kombu_url, masked, require_fit
from sleipnir.worker.celery.app import make_app
from tests.support.certificates import PrivateCA
from tests.support.cluster import Cluster
from tests.support.command_line import Sleipnir
from tests.support.on_asyncio import run_in_thread
from tests.support.redis_server import RedisServer
from tests.support.sentinels import WatchedOverTls
from tests.support.tls_door import TlsDoor, url_of_manual
from tests.support.wait import wait_until
from tests.support.workers import Workers

PASSWORD, QUOTED = "pa:ss@w/rd", "pa%3Ass%40w%2Frd"
GRAPH = """
start: s
nodes:
  s: {type: script, script: s.sh, next: z}
  z: {type: end, output: "{{said}}"}
"""
SCRIPT = {"s.sh": """echo '{"said": "well"}'"""}
LOGIN = "ada:secret"


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> PrivateCA:
    return PrivateCA(tmp_path_factory.mktemp("tls") / "ca")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server with the user of the manual."""
    with RedisServer(tmp_path / "redis") as running, connect(running.url) as admin:
        admin.execute_command("ACL", "SETUSER", "runs", "on", f">{PASSWORD}", *rule().split())
        yield running


def test_every_process_takes_the_url_of_the_manual(
    ca: PrivateCA, server: RedisServer, tmp_path: Path, own_directories: None
) -> None:
    with TlsDoor(ca, server.socket_file) as door:
        url = url_of_manual(ca, door, PASSWORD)
        sleipnir = Sleipnir(tmp_path / "cli", SLEIPNIR_REDIS_URL=url)
        with connect(url) as client, Workers(url, client, tmp_path) as workers:
            worker = workers.start("--scheduler")
            run_id = workers.submit(GRAPH, SCRIPT)

            assert workers.client.wait(run_id).output == "well"
            assert run_in_thread(read_status(url, run_id)) == "succeeded"
            # Not before the scheduler's first tick, without which a run may succeed.
            wait_until(lambda: sleipnir("doctor").returncode == 0, "doctor finds all running")
            assert sleipnir("show", run_id).returncode == 0
            assert "Unable to get queues" not in read_broker_page(sleipnir)
            assert QUOTED not in worker.log.read_text()
            assert PASSWORD not in worker.log.read_text()


def test_a_worker_that_is_asked_for_its_configuration_warns_of_nothing(
    ca: PrivateCA, server: RedisServer, tmp_path: Path, own_directories: None
) -> None:
    with TlsDoor(ca, server.socket_file) as door:
        url = url_of_manual(ca, door, PASSWORD)
        with connect(url) as client, Workers(url, client, tmp_path) as workers:
            worker = workers.start()
            asked = make_app(url, 1, []).control.inspect(timeout=60, limit=1)

            (configuration,) = asked.conf().values()

        assert PASSWORD not in str(configuration)
        assert "insecure" not in worker.log.read_text()


def test_every_node_of_a_cluster_is_reached_over_tls(
    ca: PrivateCA, tmp_path: Path, own_directories: None
) -> None:
    with Cluster(tmp_path / "c", primaries=2, replicas=False) as cluster, ExitStack() as doors:
        for port in cluster.ports:
            door = doors.enter_context(TlsDoor(ca, cluster.socket_file(port)))
            cluster.ask(port, "CONFIG", "SET", "cluster-announce-port", door.port)
        url = f"rediss+cluster://127.0.0.1:{door.port}?{urlencode(ca.client_options())}"
        wait_until(lambda: is_behind_doors(cluster), "all nodes know the doors", 60)
        with connect(url) as client, Workers(url, client, tmp_path) as workers:
            workers.start("--scheduler")
            run_id = workers.submit(GRAPH, SCRIPT)

            assert workers.client.wait(run_id).output == "well"
            assert run_in_thread(read_status(url, run_id)) == "succeeded"
        with pytest.raises(EngineUnreachable, match="self-signed certificate"):
            connect(url.replace("ssl_ca_certs", "ssl_ca_path"))


def test_sentinels_and_servers_are_reached_over_tls(
    ca: PrivateCA, tmp_path: Path, own_directories: None
) -> None:
    with WatchedOverTls(tmp_path, ca) as watched:
        url = f"{watched.url}?{urlencode(ca.client_options())}"
        sleipnir = Sleipnir(tmp_path / "cli", SLEIPNIR_REDIS_URL=url)
        with connect(url, retry_outage=True) as client, Workers(url, client, tmp_path) as workers:
            workers.start("--scheduler")
            before = workers.submit(GRAPH, SCRIPT)
            assert workers.client.wait(before).output == "well"
            assert client.connection_pool.connection_kwargs["db"] == 1

            watched.kill_primary()
            after = workers.submit(GRAPH, SCRIPT)

            assert workers.client.wait(after).output == "well"
            assert run_in_thread(read_status(url, after)) == "succeeded"
            wait_until(lambda: sleipnir("doctor").returncode == 0, "doctor finds all running")
            assert "Unable to get queues" not in read_broker_page(sleipnir)
        with pytest.raises(EngineUnreachable, match="does not answer"):
            connect(url.replace("sentinels://", "sentinel://").partition("?")[0])


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"ssl_ca_certs": None}, "self-signed certificate"),
        ({"ssl_ca_certs": "/nothing.pem"}, "ssl_ca_certs: cannot read /no"),
        ({"ssl_ca_cert": "/typo.pem"}, "'ssl_ca_cert'"),
    ],
)
def test_sentinels_that_cannot_be_trusted_are_refused(
    ca: PrivateCA, tmp_path: Path, changed: dict[str, str | None], complaint: str
) -> None:
    with WatchedOverTls(tmp_path, ca) as watched:
        options = ca.client_options() | changed
        given = {option: value for option, value in options.items() if value is not None}

        with pytest.raises(EngineUnreachable, match=complaint):
            connect(f"{watched.url}?{urlencode(given)}")


def is_behind_doors(cluster: Cluster) -> bool:
    """Return whether no node names the port of another one that is without TLS."""
    told = [cluster.ask(port, "CLUSTER", "SLOTS") for port in cluster.ports]
    named = {primary[1] for slots in told for _, _, primary, *_ in slots}
    return named.isdisjoint(cluster.ports)


async def read_status(url: str, run_id: str) -> str:
    async with AsyncClient(url) as client:
        return (await client.run(run_id)).status


def read_broker_page(sleipnir: Sleipnir) -> str:
    """Return what the monitor logs while Flower shows the queues."""
    monitor = sleipnir.start("monitor", "--port", "0", "--basic-auth", LOGIN)
    assert monitor.stderr is not None
    (address,) = re.findall(r"http://\S+", monitor.stderr.readline())
    page = Request(f"{address}/broker")
    page.add_header("Authorization", f"Basic {b64encode(LOGIN.encode()).decode()}")
    with urlopen(page, timeout=60) as answer:
        assert answer.status == 200
    monitor.terminate()
    return monitor.communicate(timeout=60)[1]


@pytest.mark.parametrize(
    ("name", "changed", "complaint"),
    [
        ("DNS:redis.internal", {}, "not valid for '127.0.0.1'"),
        ("IP:127.0.0.1", {"ssl_ca_certs": None}, "self-signed .*ssl_ca_certs="),
        ("IP:127.0.0.1", {"ssl_certfile": None, "ssl_keyfile": None}, "want a client certificate"),
        ("IP:127.0.0.1", {"ssl_ca_certs": "/nothing.pem"}, "ssl_ca_certs: cannot read /no"),
        ("IP:127.0.0.1", {"ssl_ca_cert": "/typo.pem"}, "'ssl_ca_cert'"),
    ],
)
def test_what_cannot_be_trusted_is_refused(
    ca: PrivateCA, server: RedisServer, name: str, changed: dict[str, str | None], complaint: str
) -> None:
    with TlsDoor(ca, server.socket_file, name=name) as door:
        address, _, query = url_of_manual(ca, door, PASSWORD).partition("?")
        options = dict(parse_qsl(query)) | changed
        given = {option: value for option, value in options.items() if value is not None}

        with pytest.raises(EngineUnreachable, match=complaint) as raised:
            connect(f"{address}?{urlencode(given)}")

    assert QUOTED not in str(raised.value)


def test_a_url_without_tls_for_a_server_that_wants_it_is_told_so(
    ca: PrivateCA, server: RedisServer
) -> None:
    with (
        TlsDoor(ca, server.socket_file) as door,
        pytest.raises(EngineUnreachable, match="does it want TLS"),
    ):
        connect(f"redis://127.0.0.1:{door.port}/0")


def test_a_certificate_that_is_not_checked_is_warned_of(ca: PrivateCA, server: RedisServer) -> None:
    with TlsDoor(ca, server.socket_file, name="DNS:redis.internal") as door:
        url = url_of_manual(ca, door, PASSWORD) + "&ssl_cert_reqs=none&ssl_check_hostname=false"
        with connect(url) as client:
            assert UNCHECKED in require_fit(client)


def test_the_broker_connects_with_tls_too() -> None:
    url = "rediss://runs:secret@host:1/2?ssl_ca_certs=/ca.pem&ssl_check_hostname=false"

    assert kombu_url(url) == "rediss://runs:secret@host:1/2"
    assert tls_options(url) == {
        "ssl_cert_reqs": "required",
        "ssl_ca_certs": "/ca.pem",
        "ssl_check_hostname": False,
    }
    # Without an option, kombu would take no TLS at all.
    assert tls_options("rediss://host") == {"ssl_cert_reqs": "required"}
    assert tls_options("redis://host") is None


def test_the_password_of_a_key_is_masked() -> None:
    assert masked("rediss://host?ssl_password=secret&ssl_keyfile=k") == (
        "rediss://host?ssl_password=***&ssl_keyfile=k"
    )
