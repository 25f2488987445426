"""Work that is repeated on a thread of its own."""

from __future__ import annotations

import threading

from sleipnir.scheduler.process.periodic import repeat

LIMIT_S = 60


def test_work_that_fails_is_done_again() -> None:
    times, done = threading.Semaphore(3), threading.Semaphore(0)

    def work() -> None:
        done.release()
        raise ValueError("every time")

    thread = repeat(work, 0.001, "test", when=times.acquire)

    assert all(done.acquire(timeout=LIMIT_S) for _ in range(3))
    assert thread.is_alive()
    assert thread.daemon


def test_nothing_is_done_before_there_is_something_to_do() -> None:
    asked, wanted, done = threading.Event(), threading.Semaphore(0), threading.Event()

    def until_wanted() -> None:
        asked.set()
        wanted.acquire()

    repeat(done.set, 0.001, "test", when=until_wanted)

    assert asked.wait(LIMIT_S)
    assert not done.is_set()
    wanted.release()
    assert done.wait(LIMIT_S)
