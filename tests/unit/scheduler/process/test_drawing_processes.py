"""Layouts in processes: what takes too long is ended, and the next one is laid out."""

from __future__ import annotations

import os
import threading

import pytest

from sleipnir.graphs.drawing import native, outline_of
from sleipnir.graphs.drawing.layout import place
from sleipnir.scheduler.process.drawing.processes import DrawingProcesses, DrawingTooLarge
from tests.support.dense_graphs import dense
from tests.support.graphs import make_graph
from tests.support.wait import wait_until

SMALL = outline_of(make_graph({"name": "small", **dense(3)}))
ENDLESS = outline_of(make_graph({"name": "endless", **dense(60)}))


def test_a_layout_that_takes_too_long_is_ended_and_the_next_one_is_made() -> None:
    with DrawingProcesses(limit_s=0.2) as processes:
        first = place(SMALL, processes)
        with pytest.raises(DrawingTooLarge) as raised:
            place(ENDLESS, processes)
        second = place(SMALL, processes)
        (helper,) = processes._pool._idle
        niceness = os.getpriority(os.PRIO_PROCESS, helper.pid)

    assert niceness > os.getpriority(os.PRIO_PROCESS, 0)
    assert str(raised.value) == "laying out 62 boxes and 1,772 arrows takes more than 0.2 s"
    assert first == second == place(SMALL, native)


def test_closing_ends_the_layouts_under_way() -> None:
    processes = DrawingProcesses(limit_s=600)
    ended: list[DrawingTooLarge] = []

    def lay_out() -> None:
        with pytest.raises(DrawingTooLarge) as raised:
            place(ENDLESS, processes)
        ended.append(raised.value)

    waiting = threading.Thread(target=lay_out)
    waiting.start()
    wait_until(lambda: processes._pool._busy, "it is being laid out", 60)
    processes.close()
    waiting.join()

    assert "its process exited: -9" in str(ended[0])
