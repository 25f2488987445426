"""A limit holds whatever a library does with it."""

from __future__ import annotations

import asyncio

import pytest

from sleipnir.worker.mcp import pool
from tests.support.on_asyncio import run_in_thread


def test_a_coroutine_that_ignores_its_cancellation_is_not_waited_for() -> None:
    async def outcome() -> None:
        ended = asyncio.Event()

        async def stubborn() -> None:
            while not ended.is_set():
                try:
                    await ended.wait()
                except asyncio.CancelledError:
                    continue

        with pytest.raises(TimeoutError):
            await pool._within(0.01, stubborn())
        ended.set()

    run_in_thread(outcome())


def test_what_a_coroutine_returns_and_raises_is_passed_on() -> None:
    async def fine() -> str:
        return "fine"

    async def broken() -> str:
        raise ValueError("broken")

    assert run_in_thread(pool._within(5, fine())) == "fine"
    with pytest.raises(ValueError, match="broken"):
        run_in_thread(pool._within(5, broken()))
