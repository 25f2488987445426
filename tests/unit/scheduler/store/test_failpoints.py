"""Failpoints: off they cost nothing, on they strike where and when they were asked to."""

from __future__ import annotations

import pytest
from redis.exceptions import ConnectionError

from sleipnir.scheduler.errors import SettingInvalid
from sleipnir.scheduler.store.failpoints import VARIABLE, install, install_requested


class Store:
    def __init__(self) -> None:
        self.begun = 0

    def begin(self) -> int:
        self.begun += 1
        return self.begun


@pytest.fixture
def owner() -> type[Store]:
    """A class that may be changed."""
    return type("Owner", (Store,), {"begin": Store.begin})


def test_without_the_variable_nothing_is_wrapped(
    owner: type[Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)

    install_requested(owner)

    assert owner.begin is Store.begin


@pytest.mark.parametrize(("when", "begun"), [("before", 0), ("after", 1)])
def test_it_strikes_before_or_after(owner: type[Store], when: str, begun: int) -> None:
    install(f"{when}.begin:raise", owner)
    store = owner()

    with pytest.raises(ConnectionError):
        store.begin()

    assert store.begun == begun


def test_a_numbered_one_strikes_once(owner: type[Store]) -> None:
    install("after.begin:raise:2", owner)
    store = owner()

    first = store.begin()
    with pytest.raises(ConnectionError):
        store.begin()

    assert (first, store.begin()) == (1, 3)


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        ("begin:kill", "expected <before|after|amid>"),
        ("before.begin:explode", "got 'before.begin:explode'"),
        ("before.begin:kill:0", "expected"),
        ("before.nothing:kill", "there is no function 'nothing'"),
    ],
)
def test_what_is_no_failpoint_is_refused(owner: type[Store], requested: str, message: str) -> None:
    with pytest.raises(SettingInvalid, match=message):
        install(requested, owner)
