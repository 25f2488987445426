"""Whether a model goes round in circles."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.runs.conversation.loop_check import OF_CHILD, OF_ROOT, Bounds, Call, alert

SAME, OTHER = Call("f", {"a": 1}), Call("f", {"a": 2})


@pytest.mark.parametrize(("bounds", "borne"), [(OF_ROOT, 2), (OF_CHILD, 4)])
def test_so_many_equal_calls_are_borne(bounds: Bounds, borne: int) -> None:
    assert alert(SAME, [SAME] * (borne - 1), bounds) is None
    assert alert(SAME, [SAME] * borne, bounds) is not None
    assert alert(SAME, [*[SAME] * borne, OTHER], bounds) is None
    assert alert(OTHER, [SAME] * borne, bounds) is None


def test_the_model_is_shown_its_calls_once_there_are_enough() -> None:
    few = alert(SAME, [SAME, SAME], OF_ROOT)
    enough = alert(SAME, [OTHER, SAME, SAME], OF_ROOT)

    assert few is not None
    assert enough is not None
    assert few["tool_call_loop_alert"].keys() == {"error"}
    assert few["tool_call_loop_alert"]["error"]["code"] == 400
    assert enough["tool_call_loop_alert"]["call_history"] == [
        {"name": "f", "parameters": {"a": number}} for number in (2, 1, 1)
    ]
