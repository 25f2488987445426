"""Several models for one question: who is asked, and what is said when nobody replies."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.runs.model import NO_USAGE
from sleipnir.worker.llm.caller import MustWait
from sleipnir.worker.llm.chain import first_reply
from sleipnir.worker.llm.client import FailureKind, ModelCallFailed, Reply

HI = Reply({"content": "hi"}, NO_USAGE)


class Asking:
    """Replies or raises in turn; keeps who was asked, and whether another one was left."""

    def __init__(self, *results: Reply | Exception) -> None:
        self.results = list(results)
        self.asked: list[tuple[str, bool]] = []

    def __call__(self, model: str, next_model: bool, timeout_s: float | None) -> Reply:
        self.asked.append((model, next_model))
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


def test_the_first_that_replies_is_the_last_that_is_asked() -> None:
    ask = Asking(ModelCallFailed("no"), HI)

    reply = first_reply(["a", "b", "c"], ask, None)

    assert reply is HI
    assert ask.asked == [("a", True), ("b", True)]


def test_a_single_model_fails_in_its_own_words() -> None:
    failure = ModelCallFailed("no", retry_after_s=2.0)

    with pytest.raises(ModelCallFailed) as raised:
        first_reply(["a"], Asking(failure), 5.0)

    assert raised.value is failure


def test_while_one_of_them_may_reply_later_the_question_waits() -> None:
    ask = Asking(MustWait(9.0, "slow"), ModelCallFailed("no"), MustWait(3.0, "soon"))

    with pytest.raises(MustWait) as raised:
        first_reply(["a", "b", "c"], ask, None)

    assert raised.value.delay_s == 3.0
    assert ask.asked[-1] == ("c", False)


def test_a_question_takes_its_place_where_its_turn_comes_first() -> None:
    ask = Asking(MustWait(1.0, "a"), MustWait(9.0, "b"), MustWait(3.0, "c"), MustWait(1.5, "a"))

    with pytest.raises(MustWait) as raised:
        first_reply(["a", "b", "c"], ask, None)

    assert raised.value.delay_s == 1.5
    assert ask.asked[-1] == ("a", False)


def test_a_model_that_was_to_reply_later_and_fails_leaves_the_question_to_the_others() -> None:
    ask = Asking(MustWait(1.0, "a"), MustWait(3.0, "b"), ModelCallFailed("no"))

    with pytest.raises(MustWait) as raised:
        first_reply(["a", "b"], ask, None)

    assert raised.value.delay_s == 3.0


@pytest.mark.parametrize(
    ("pauses", "expected"), [((2.0, 5.0), 2.0), ((2.0, None), None), ((None, None), None)]
)
def test_a_pause_is_asked_for_if_all_of_them_ask_for_one(
    pauses: tuple[float | None, ...], expected: float | None
) -> None:
    ask = Asking(*(ModelCallFailed("429", retry_after_s=pause) for pause in pauses))

    with pytest.raises(ModelCallFailed, match="a: 429; b: 429") as raised:
        first_reply(["a", "b"], ask, None)

    assert raised.value.retry_after_s == expected


@pytest.mark.parametrize(
    ("second", "expected"),
    [(("throttled", 429), ("throttled", 429)), (("unavailable", None), ("other", None))],
)
def test_together_they_fail_with_the_facts_they_have_in_common(
    second: tuple[FailureKind, int | None], expected: tuple[FailureKind, int | None]
) -> None:
    kind, status = second
    ask = Asking(
        ModelCallFailed("no", "throttled", status=429), ModelCallFailed("no", kind, status=status)
    )

    with pytest.raises(ModelCallFailed) as raised:
        first_reply(["a", "b"], ask, None)

    assert (raised.value.kind, raised.value.status) == expected


def test_nobody_is_asked_when_the_time_is_over() -> None:
    ask = Asking(ModelCallFailed("timed out after 0s"))

    with pytest.raises(ModelCallFailed, match=r"^a: timed out after 0s$"):
        first_reply(["a", "b"], ask, 0.0)
