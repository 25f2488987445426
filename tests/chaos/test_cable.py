"""The network cable is pulled in the middle of a batch: that costs time, but no result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.support.model_server import ModelServer
from tests.support.proxy import Proxy
from tests.support.services import Fleet
from tests.support.tool_load import GRAPH, TEXTS, TOOLS, script
from tests.support.wait import wait_until

LINES = 16
# A provider that was away is tried again after a second, then two, then four.
BACK_S = 60


class Wires:
    """A fleet of two workers, whose ways to Redis and to the model server can be cut."""

    def __init__(self, fleet: Fleet, to_redis: Proxy, to_models: Proxy) -> None:
        self.sleipnir = fleet.sleipnir
        self.to_redis = to_redis
        self.to_models = to_models


class Batch:
    """A batch whose tools write down what they did, in a directory of its own."""

    def __init__(self, wires: Wires, directory: Path) -> None:
        file = directory / "lines.txt"
        file.write_text("".join(f"{number}\n" for number in range(LINES)))
        self._effects = directory / "effects"
        workdir = ("--workdir", str(directory))
        self._process = wires.sleipnir.start("batch", "noting", str(file), *workdir)

    def calls(self) -> set[str]:
        """The idempotency keys of the calls that were carried out."""
        lines = self._effects.read_text().splitlines() if self._effects.exists() else []
        return {line.split()[0] for line in lines}

    def end(self) -> tuple[list[dict[str, Any]], str]:
        """Wait for its end: the results, and what it said."""
        printed, said = self._process.communicate(timeout=120)
        assert self._process.returncode == 0, said
        return [json.loads(line) for line in printed.splitlines()], said


@pytest.fixture(scope="module")
def wires(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wires]:
    with ModelServer() as server, Fleet(tmp_path_factory.mktemp("wires")) as fleet:
        script(server, delay_s=0.1)
        with Proxy(fleet.redis.socket_file) as to_redis, Proxy(server.port) as to_models:
            fleet.sleipnir.environment |= {
                "OPENAI_BASE_URL": f"http://127.0.0.1:{to_models.port}/v1",
                "OPENAI_API_KEY": "sk-only-for-this-test",
                "SLEIPNIR_CONCURRENCY": "4",
                "SLEIPNIR_MAX_DELIVERIES": "50",
            }
            fleet.sleipnir.write("noting", GRAPH, {"tools.py": TOOLS})
            fleet.start_scheduler()
            for _ in range(2):
                fleet.start_worker(SLEIPNIR_REDIS_URL=to_redis.url)
            yield Wires(fleet, to_redis, to_models)


def stays_broken(seconds: float) -> None:
    until = monotonic() + seconds
    wait_until(lambda: monotonic() > until, "the network is broken for a while", seconds + 1)


def away(proxy: Proxy) -> None:
    proxy.refuse()
    stays_broken(3)
    proxy.recover()


def flaky(proxy: Proxy) -> None:
    for _ in range(10):
        proxy.reset()
        stays_broken(0.3)


def silent(proxy: Proxy) -> None:
    proxy.go_silent()
    stays_broken(3)
    proxy.refuse()  # what is on its way is lost, and its ends learn of it
    proxy.recover()


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "fault", [away, *(pytest.param(fault, marks=pytest.mark.chaos) for fault in (flaky, silent))]
)
@pytest.mark.parametrize("wire", ["to_models", "to_redis"])
def test_a_batch_loses_no_line_when_the_cable_is_pulled(
    wire: str, fault: Callable[[Proxy], None], wires: Wires, tmp_path: Path
) -> None:
    batch = Batch(wires, tmp_path)
    wait_until(lambda: len(batch.calls()) >= LINES // 2, "it is at work", BACK_S)

    before_the_fault = len(batch.calls())
    fault(getattr(wires, wire))
    results, said = batch.end()

    assert {(line["status"], line["output"]) for line in results} == {("succeeded", "Noted.")}, said
    assert len(results) == LINES
    assert before_the_fault < LINES * len(TEXTS) == len(batch.calls())
