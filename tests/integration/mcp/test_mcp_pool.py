"""The pool of MCP connections, with real servers of every transport."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sleipnir.graphs.mcp.config import McpServer
from sleipnir.worker.mcp.failures import McpFailed, McpUnavailable
from sleipnir.worker.mcp.pool import MOST_IDLE, RETRY_PAUSE_S, McpLimits, McpPool
from sleipnir.worker.visit.cancellation import Cancellation
from tests.support.mcp import plain_server, remote_server, stdio_server
from tests.support.wait import wait_until

LIMIT_S = 30.0


class Clock:
    """A clock moved by hand."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock_of_pool() -> Clock:
    return Clock()


@pytest.fixture
def pool(clock_of_pool: Clock) -> Iterator[McpPool]:
    """A pool of its own; no program of it is left afterwards."""
    pool = McpPool(clock=clock_of_pool)
    yield pool
    pool.close()


@pytest.fixture(params=["stdio", "http", "sse"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[McpServer]:
    """Our own server over each transport."""
    if request.param == "stdio":
        yield stdio_server()
        return
    with remote_server(request.param, tmp_path) as started:
        yield started


def text_of(result: dict[str, Any]) -> str:
    (block,) = result["content"]
    return str(block["text"])


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_tool_is_found_and_called(pool: McpPool, server: McpServer, tmp_path: Path) -> None:
    tools = {tool.name: tool for tool in pool.tools(server, tmp_path, LIMIT_S)}
    result = pool.call(server, tmp_path, "add", {"a": 2, "b": 3}, LIMIT_S)

    assert tools["add"].description == "Add two numbers."
    assert tools["add"].parameters["required"] == ["a", "b"]
    assert result == {
        "content": [{"type": "text", "text": "5"}],
        "isError": False,
        "structuredContent": {"result": 5},
    }


def test_an_error_of_the_tool_is_a_result(pool: McpPool, server: McpServer, tmp_path: Path) -> None:
    result = pool.call(server, tmp_path, "refuse", {}, LIMIT_S)

    assert result["isError"] is True
    assert "not today" in text_of(result)


def test_a_changed_list_of_tools_is_asked_for_again(
    pool: McpPool, server: McpServer, tmp_path: Path
) -> None:
    def names() -> set[str]:
        return {tool.name for tool in pool.tools(server, tmp_path, LIMIT_S)}

    assert "grown" not in names()

    pool.call(server, tmp_path, "grow", {}, LIMIT_S)

    wait_until(lambda: "grown" in names(), "the new tool is listed")


def test_a_server_of_the_older_protocol_is_understood(pool: McpPool, tmp_path: Path) -> None:
    server = plain_server()

    def names() -> list[str]:
        return [tool.name for tool in pool.tools(server, tmp_path, LIMIT_S)]

    assert names() == ["more", "echo"]
    assert text_of(pool.call(server, tmp_path, "echo", {"x": 1}, LIMIT_S)) == '{"x": 1}'

    pool.call(server, tmp_path, "more", {}, LIMIT_S)
    wait_until(lambda: names() == ["more", "echo", "third"], "the third tool is listed")


def test_a_published_server_works(pool: McpPool, tmp_path: Path) -> None:
    server = McpServer(
        "time", "stdio", command=str(Path(sys.executable).with_name("mcp-server-time"))
    )
    asked = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}

    tools = pool.tools(server, tmp_path, LIMIT_S)
    result = pool.call(server, tmp_path, "convert_time", asked, LIMIT_S)

    assert {tool.name for tool in tools} == {"get_current_time", "convert_time"}
    assert "T21:00:00+09:00" in text_of(result)


def test_many_threads_share_one_program(pool: McpPool, tmp_path: Path) -> None:
    def process(_: int) -> str:
        return text_of(pool.call(stdio_server(), tmp_path, "process", {}, LIMIT_S))

    with ThreadPoolExecutor(8) as threads:
        processes = set(threads.map(process, range(16)))

    assert len(processes) == 1


def test_another_specification_is_another_program(pool: McpPool, tmp_path: Path) -> None:
    one = stdio_server()
    other = replace(one, env={**one.env, "MORE": "x"})

    processes = {
        text_of(pool.call(server, directory, "process", {}, LIMIT_S))
        for server in (one, other)
        for directory in (tmp_path / "a", tmp_path / "b")
    }

    assert len(processes) == 4


def test_a_program_runs_in_the_runs_directory_or_its_own(pool: McpPool, tmp_path: Path) -> None:
    fixed = stdio_server(cwd=str(tmp_path / "fixed"))
    relative = stdio_server(cwd="sub")

    where = [
        text_of(pool.call(server, tmp_path / "run", "where", {}, LIMIT_S))
        for server in (stdio_server(), fixed, relative)
    ]

    assert where == [str(tmp_path / "run"), str(tmp_path / "fixed"), str(tmp_path / "run" / "sub")]


def test_a_program_sees_no_more_of_the_environment_than_tools_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLEIPNIR_REDIS_URL", "redis://secret")
    monkeypatch.setenv("ALLOWED", "yes")
    own = stdio_server()
    server = replace(own, env={**own.env, "OWN": "own"})
    pool = McpPool(environment_names=("ALLOWED",))

    names = ("SLEIPNIR_REDIS_URL", "ALLOWED", "OWN")
    results = [pool.call(server, tmp_path, "variable", {"name": n}, LIMIT_S) for n in names]
    pool.close()

    assert [r["structuredContent"]["result"] for r in results] == [None, "yes", "own"]


def test_after_a_crash_the_next_call_starts_it_again(pool: McpPool, tmp_path: Path) -> None:
    server = stdio_server()
    first = text_of(pool.call(server, tmp_path, "process", {}, LIMIT_S))

    with pytest.raises(McpFailed, match="disconnected during the call"):
        pool.call(server, tmp_path, "crash", {}, LIMIT_S)
    second = text_of(pool.call(server, tmp_path, "process", {}, LIMIT_S))

    assert second != first


def test_a_server_killed_between_calls_is_replaced(pool: McpPool, tmp_path: Path) -> None:
    server = stdio_server()

    def process() -> int | None:
        try:
            return int(text_of(pool.call(server, tmp_path, "process", {}, LIMIT_S)))
        except McpFailed:  # it was asked before anybody saw that it had ended
            return None

    first = process()
    assert first is not None

    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not alive(first), "the program is gone")
    second = wait_until(process, "another one answers")

    assert second != first


def test_a_slow_call_is_given_up_and_the_server_kept(pool: McpPool, tmp_path: Path) -> None:
    server = stdio_server()
    before = text_of(pool.call(server, tmp_path, "process", {}, LIMIT_S))

    with pytest.raises(McpFailed, match=r"no answer after 0\.2 s"):
        pool.call(server, tmp_path, "wait", {"file": str(tmp_path / "never")}, 0.2)

    assert text_of(pool.call(server, tmp_path, "process", {}, LIMIT_S)) == before


def test_starting_counts_against_the_calls_limit(pool: McpPool, tmp_path: Path) -> None:
    slow = McpServer("slow", "stdio", command="sleep", args=("60",))

    with pytest.raises(McpFailed, match=r"no answer after 0\.2 s"):
        pool.call(slow, tmp_path, "any", {}, 0.2)


def test_a_cancelled_visit_abandons_its_call(pool: McpPool, tmp_path: Path) -> None:
    server, cancellation = stdio_server(), Cancellation()
    pool.tools(server, tmp_path, LIMIT_S)
    asked = {"file": str(tmp_path / "never")}

    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(pool.call, server, tmp_path, "wait", asked, LIMIT_S, cancellation)
        cancellation.set()

        with pytest.raises(McpFailed, match="cancelled"):
            call.result(LIMIT_S)


def reap(pool: McpPool) -> int:
    """Close what the pool closes by itself every few seconds."""
    return pool._thread.run(pool._reap())


def test_what_nobody_uses_is_closed_in_time(
    pool: McpPool, clock_of_pool: Clock, tmp_path: Path
) -> None:
    used = int(text_of(pool.call(stdio_server("used"), tmp_path, "process", {}, LIMIT_S)))
    idle = int(text_of(pool.call(stdio_server("idle"), tmp_path, "process", {}, LIMIT_S)))
    clock_of_pool.now += 200
    pool.call(stdio_server("used"), tmp_path, "process", {}, LIMIT_S)
    assert reap(pool) == 0

    clock_of_pool.now += 100
    assert reap(pool) == 1

    assert (alive(used), alive(idle)) == (True, False)


def test_only_so_many_wait_for_more_work(pool: McpPool, tmp_path: Path) -> None:
    with ThreadPoolExecutor(MOST_IDLE) as threads:
        list(
            threads.map(
                lambda n: pool.tools(plain_server(), tmp_path / str(n), LIMIT_S),
                range(MOST_IDLE + 2),
            )
        )

    assert reap(pool) == 2


def test_one_that_is_only_starting_is_not_idle(
    pool: McpPool, clock_of_pool: Clock, tmp_path: Path
) -> None:
    plain = plain_server()
    wait_for_go = "touch begun; until [ -e go ]; do sleep 0.02; done"
    program = f"{wait_for_go}; exec {plain.command} {plain.args[0]}"
    server = replace(plain, command="bash", args=("-c", program))

    with ThreadPoolExecutor(1) as threads:
        listing = threads.submit(pool.tools, server, tmp_path, LIMIT_S)
        wait_until((tmp_path / "begun").exists, "the server's program runs")
        clock_of_pool.now += 300
        closed = reap(pool)
        (tmp_path / "go").touch()

        assert closed == 0
        assert listing.result(LIMIT_S)


def test_a_list_of_tools_holds_for_ten_minutes(
    pool: McpPool, clock_of_pool: Clock, tmp_path: Path
) -> None:
    with remote_server("http", tmp_path) as server:
        tools = pool.tools(server, tmp_path, LIMIT_S)

    clock_of_pool.now += 599
    assert pool.tools(server, tmp_path, LIMIT_S) == tools

    clock_of_pool.now += 1
    with pytest.raises(McpUnavailable):
        pool.tools(server, tmp_path, LIMIT_S)


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        (McpServer("s", "stdio", command="no-such-program"), "there is no 'no-such-program'"),
        (
            McpServer("s", "stdio", command="bash", args=("-c", "echo bad licence >&2; exit 1")),
            "bad licence",
        ),
        (McpServer("s", "http", url="http://127.0.0.1:9/mcp"), "attempts failed"),
        (McpServer("s", "sse", url="http://127.0.0.1:9/sse"), "attempts failed"),
    ],
)
def test_a_server_that_does_not_start_says_why(
    pool: McpPool, tmp_path: Path, server: McpServer, reason: str
) -> None:
    with pytest.raises(McpUnavailable, match=reason):
        pool.tools(server, tmp_path, LIMIT_S)


def test_a_server_that_never_gets_ready_is_given_up(tmp_path: Path) -> None:
    pool = McpPool(McpLimits(start_s=0.2))
    slow = McpServer("slow", "stdio", command="sleep", args=("60",))

    with pytest.raises(McpUnavailable, match=r"not ready after 0\.2 s"):
        pool.tools(slow, tmp_path, LIMIT_S)
    pool.close()


def test_what_did_not_start_is_tried_again_after_a_pause(
    pool: McpPool, clock_of_pool: Clock, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    server = stdio_server(command=str(program))
    with pytest.raises(McpUnavailable):
        pool.tools(server, tmp_path, LIMIT_S)
    program.write_text(f'#!/bin/sh\nexec {stdio_server().command} "$@"\n')
    program.chmod(0o700)

    with pytest.raises(McpUnavailable):
        pool.tools(server, tmp_path, LIMIT_S)

    clock_of_pool.now += RETRY_PAUSE_S
    assert pool.tools(server, tmp_path, LIMIT_S)


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_headers_authenticate(kind: Any, pool: McpPool, tmp_path: Path) -> None:
    with remote_server(kind, tmp_path, "--token", "t0ken") as server:
        known = replace(server, headers={"Authorization": "Bearer t0ken"})

        assert pool.tools(known, tmp_path, LIMIT_S)
        with pytest.raises(McpUnavailable, match="HTTP 401"):
            pool.tools(server, tmp_path, LIMIT_S)


def test_closing_ends_every_program(tmp_path: Path) -> None:
    pool = McpPool()
    pids = [
        int(text_of(pool.call(stdio_server(name), tmp_path, "process", {}, LIMIT_S)))
        for name in ("one", "two")
    ]

    pool.close()

    assert [alive(pid) for pid in pids] == [False, False]


def test_a_message_that_is_too_long_ends_the_program_and_another_one_answers(
    pool: McpPool, tmp_path: Path
) -> None:
    server, limit_s = stdio_server(), 120.0
    large = pool.call(server, tmp_path, "flood", {"length": 1_000_000}, limit_s)

    with pytest.raises(McpFailed, match="a message of more than 8388608 bytes"):
        pool.call(server, tmp_path, "flood", {"length": 9_000_000}, limit_s)

    assert len(text_of(large)) == 1_000_000
    assert text_of(pool.call(server, tmp_path, "add", {"a": 2, "b": 3}, limit_s)) == "5"
