"""How many messages a worker may take, and when its event loop must hear of more."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sleipnir.worker.celery.broker import Channel, Credit, Transport, in_hand


@pytest.fixture
def credit() -> Credit:
    return Credit(SimpleNamespace(do_restore=False), prefetch_count=2)


def test_messages_may_be_taken_up_to_the_number_of_threads(credit: Credit) -> None:
    credit.append("first", "1")
    assert credit.can_consume()

    credit.append("second", "2")
    assert not credit.can_consume()


def test_a_loop_that_waits_for_credit_is_woken_by_the_first_thread_only(credit: Credit) -> None:
    credit.append("first", "1")
    credit.append("second", "2")
    assert not credit.can_consume()

    assert credit.return_credit("1")
    assert not credit.return_credit("2")

    assert credit.can_consume()


def test_a_loop_that_still_has_credit_is_left_alone(credit: Credit) -> None:
    credit.append("first", "1")
    assert credit.can_consume()

    assert not credit.return_credit("1")


def test_a_message_is_in_hand_until_its_visit_is_over(
    credit: Credit, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = SimpleNamespace(qos=credit)
    monkeypatch.setattr(Channel, "opened", [channel])
    credit.append("first", "1")
    assert in_hand() == 1

    credit.return_credit("1")

    assert in_hand() == 0


@pytest.mark.parametrize(
    ("ours", "overridden"),
    [
        (Channel, {"_brpop_read", "_brpop_start", "_restore", "do_restore"}),
        (Credit, {"can_consume"}),
        (Transport, {"Channel", "register_with_event_loop"}),
    ],
)
def test_no_private_name_of_kombu_is_overridden_by_chance(ours: type, overridden: set[str]) -> None:
    """A method of ours with the name of one of kombu's takes its place without a word."""
    (theirs,) = ours.__bases__

    found = {name for name in vars(ours) if not name.startswith("__") and hasattr(theirs, name)}

    assert found == overridden
