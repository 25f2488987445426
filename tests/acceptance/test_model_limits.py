"""Limits of model calls, as their users see them: a batch through trouble, and the command."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.support.command_line import Sleipnir
from tests.support.model_server import RESETS, ModelServer, Reply, Request, fails, says
from tests.support.wait import wait_until

ASK = """
start: ask
nodes:
  ask: {type: llm, prompt: "{{initial_prompt}}", model: "openai:gpt-4o-mini",
        state_updates: {said: "{{output}}"}, next: done}
  done: {type: end, output: "{{said}}"}
"""
SLOW_DOWN = fails(429, "slow down", {"Retry-After": "1"})
PER_MINUTE = 300
CONFIG = f"""
models:
  providers:
    openai: {{requests_per_minute: {PER_MINUTE}, concurrency: 8}}
"""
LINES = 24
# Of which a worker admits most by itself.
MANY_CALLS = """
models:
  providers:
    openai: {requests_per_minute: 60000, concurrency: 4000}
  prices: {"openai:gpt-4o-mini": {prompt: 1.0, completion: 1.0}}
  budgets:
    day: {usd: 10000}
"""


class Provider:
    """A model server on one port that goes away and comes back."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.asked_at: list[float] = []
        self._is_here = False

    @contextmanager
    def serving(self, *replies: Reply) -> Iterator[None]:
        """Be there during the block."""
        with ModelServer(*replies, port=self.port) as server:
            server.when(self._note, says("never"))
            # Connections outlive a server's socket.
            server.when(lambda _request: not self._is_here, RESETS)
            server.script.add(*[says("fine") for _ in range(2 * LINES)])
            self._is_here = True
            yield
            self._is_here = False

    def _note(self, _request: Request) -> bool:
        self.asked_at.append(monotonic())
        return False

    def most_within(self, seconds: float) -> int:
        return max(sum(at <= t < at + seconds for t in self.asked_at) for at in self.asked_at)


@pytest.fixture(scope="module")
def provider() -> Provider:
    return Provider()


@pytest.fixture(scope="module")
def sleipnir(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[Sleipnir]:
    """An engine with limits, whose models are at the provider."""
    directory = tmp_path_factory.mktemp("limited-models")
    sleipnir = Sleipnir(
        directory,
        OPENAI_BASE_URL=f"http://127.0.0.1:{provider.port}/v1",
        OPENAI_API_KEY="sk-only-for-this-test",
    )
    (directory / "config").mkdir()
    (directory / "config" / "config.yaml").write_text(CONFIG)
    sleipnir.write("ask", ASK)
    with sleipnir.up():
        yield sleipnir


def status(sleipnir: Sleipnir) -> Any:
    return sleipnir.json("limits")


def newest(sleipnir: Sleipnir) -> Any:
    """What `ps` says of the newest run."""
    return sleipnir.json("ps", "--limit", "1")


@pytest.mark.timeout(600)
def test_a_batch_outlasts_refusals_and_an_outage(
    sleipnir: Sleipnir, provider: Provider, tmp_path: Path
) -> None:
    lines = tmp_path / "in.txt"
    lines.write_text("".join(f"question {number}\n" for number in range(LINES)))
    with provider.serving(says("fine"), SLOW_DOWN, says("fine"), SLOW_DOWN):
        batch = sleipnir.start("batch", "ask", str(lines), "--name", "trouble")
        wait_until(lambda: len(provider.asked_at) > LINES // 4, "a part is done", 180)
    wait_until(
        lambda: [pause for pause in status(sleipnir)["pauses"] if pause["kind"] == "unavailable"],
        "the outage is noticed",
        180,
    )

    with provider.serving():
        output, _ = batch.communicate(timeout=180)

    results = [json.loads(line) for line in output.splitlines()]
    assert [result["status"] for result in results] == ["succeeded"] * LINES
    assert {result["output"] for result in results} == {"fine"}
    # Two seconds' worth, what calls may come late, and one.
    assert provider.most_within(2) <= (2 + 2) * PER_MINUTE / 62 + 1


def test_a_plain_run_does_not_wait_for_a_provider_that_is_gone(sleipnir: Sleipnir) -> None:
    done = sleipnir.json("run", "ask", "hello?")

    # Refused, or reset where a connection was kept from before.
    assert done["output"].startswith("LLM node failed: Connection re")


def test_a_command_pauses_a_provider_until_it_is_resumed(
    sleipnir: Sleipnir, provider: Provider
) -> None:
    sleipnir("limits", "--pause", "openai", "--reason", "maintenance")
    with provider.serving():
        wait_until(lambda: status(sleipnir)["pauses"], "the pause is known")
        run = sleipnir("submit", "ask", "hello?").stdout.strip()
        wait_until(lambda: newest(sleipnir)["waits_for"], "the run waits")
        shown = sleipnir("show", run).stdout
        watcher = sleipnir.start("watch", run)

        resumed = sleipnir("limits", "--resume", "openai")
        wait_until(lambda: sleipnir.json("show", run)["status"] == "succeeded", "it went on")

    assert "waits    openai is paused: sleipnir limits --resume openai" in shown
    assert "waiting for a person: openai is paused manually" in watcher.communicate()[1]
    assert "1 call resumed" in resumed.stderr


def test_a_run_that_rests_for_a_rate_says_so(sleipnir: Sleipnir, provider: Provider) -> None:
    sleipnir("limits", "--set", "openai.requests_per_minute=1")
    with provider.serving():
        runs = [sleipnir("submit", "ask", "hello?").stdout.strip() for _ in range(3)]

        wait_until(
            lambda: any("waits    " in sleipnir("show", run).stdout for run in runs),
            "one of the runs rests",
            20,
        )

        sleipnir("limits", "--unset", "openai.requests_per_minute")
        sleipnir("cancel", *runs)


def test_limits_are_shown_with_where_they_come_from(sleipnir: Sleipnir) -> None:
    sleipnir("limits", "--set", "openai.concurrency=3", "--set", "day.usd=2.5")

    shown = sleipnir("limits").stdout
    limits = {limit["setting"]: limit for limit in status(sleipnir)["limits"]}
    sleipnir("limits", "--unset", "openai.concurrency", "--unset", "day.usd")

    assert (limits["concurrency"]["value"], limits["concurrency"]["origin"]) == (3, "command")
    assert limits["requests_per_minute"]["origin"] == "configuration"
    assert "day" in shown
    assert "$2.5000" in shown


def test_a_worker_that_ends_has_told_what_its_calls_have_used(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.yaml").write_text(MANY_CALLS)
    (tmp_path / "in.txt").write_text("".join(f"Why {number}?\n" for number in range(300)))
    with ModelServer() as server:
        server.when(lambda _: True, says("So.", prompt_tokens=1_000, completion_tokens=0))
        sleipnir = Sleipnir(
            tmp_path, OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="sk-only-for-this-test"
        )
        sleipnir.write("ask", ASK)
        with sleipnir.up():
            done = sleipnir("batch", "ask", str(tmp_path / "in.txt"), "-q")
        with sleipnir.up():
            today = sleipnir.json("limits")["today"]

    assert done.returncode == 0, done.stderr
    assert len(server.requests) == 300
    assert today["spent_usd"] == pytest.approx(300 * 0.001)
    assert today["reserved_usd"] == 0


def test_a_name_that_is_not_known_is_said(sleipnir: Sleipnir) -> None:
    refused = sleipnir("limits", "--set", "nobody.concurrency=3")

    assert refused.returncode == 2
    assert "'nobody' is neither a provider" in refused.stderr


def test_resuming_what_is_not_paused_is_refused(sleipnir: Sleipnir) -> None:
    refused = sleipnir("limits", "--resume", "openai")

    assert refused.returncode == 1
    assert "openai is not paused" in refused.stderr
