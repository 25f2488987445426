"""A Redis without room: transitions happen whole or not at all, and workers wait for room."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from redis.exceptions import OutOfMemoryError

from scheduler.audit import Audit
from scheduler.connection import is_full
from scheduler.dispatch import DirectDispatcher
from scheduler.store import RunStore
from tests.integration.test_lua_contract import LEASED, leased
from tests.support.engine import Engine
from tests.support.keys import dump
from tests.support.runs import RUN, a_run, begin, go_to


@contextmanager
def no_room(engine: Engine) -> Iterator[None]:
    engine.redis.config_set("maxmemory", 1)
    try:
        yield
    finally:
        engine.redis.config_set("maxmemory", 0)


@pytest.mark.parametrize("action", LEASED)
def test_a_transition_is_not_half_done(engine: Engine, action: str) -> None:
    lease = leased(engine, action)
    before = dump(engine.redis)

    with no_room(engine):
        try:
            LEASED[action](engine, lease)
            refused = False
        except OutOfMemoryError as error:
            refused = is_full(error)

    # Runs made by hand have no bundle, and say nothing of their visits in the history.
    broken = {found.rule for found in Audit(engine.redis).violations()} - {"bundle", "commits"}
    assert broken == set()
    assert refused == (dump(engine.redis) == before)


def test_a_patient_store_waits_for_room(engine: Engine) -> None:
    engine.store.submit(a_run())
    lease = begin(engine, "1/s")
    patient = RunStore(
        engine.redis, engine.store.settings, DirectDispatcher(), engine.clock, patient=True
    )

    with ThreadPoolExecutor(1) as worker:
        with no_room(engine):
            advancing = worker.submit(patient.advance, lease, 1, go_to("n", k="1"), cap=9, window=8)
            with pytest.raises(OutOfMemoryError):
                engine.store.submit(a_run("02" + RUN[2:]))
            waited = not advancing.done()
        status = advancing.result(timeout=10)

    assert (waited, status) == (True, "running")
    assert engine.run(RUN).frontier == ("n",)
