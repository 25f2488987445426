"""The task queue of a supervisor."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.runs.conversation.tasks import Task, TaskQueue, TaskRefused


def queue(*tasks: tuple[str, list[str]]) -> TaskQueue:
    """Tasks by subject, each with what it waits for."""
    found = TaskQueue()
    for subject, blocked_by in tasks:
        found, _ = found.with_task(Task(0, subject), blocked_by)
    return found


def statuses(found: TaskQueue) -> list[str]:
    return [task["status"] for task in found.shown()]


CHAIN = queue(("a", []), ("b", ["task_1"]), ("c", ["task_1", "2"]))


def test_tasks_are_shown_with_what_they_wait_for_and_who_waits_for_them() -> None:
    nothing = {"owner": None, "agent": None, "prompt": None, "variables": None}

    assert CHAIN.shown() == [
        {"id": "task_1", "subject": "a", "status": "pending", **nothing}
        | {"blocked_by": [], "blocks": ["task_2", "task_3"]},
        {"id": "task_2", "subject": "b", "status": "blocked", **nothing}
        | {"blocked_by": ["task_1"], "blocks": ["task_3"]},
        {"id": "task_3", "subject": "c", "status": "blocked", **nothing}
        | {"blocked_by": ["task_1", "task_2"], "blocks": []},
    ]
    assert TaskQueue.from_json(CHAIN.to_json()) == CHAIN


@pytest.mark.parametrize(
    ("blocked_by", "waits_for", "warned"),
    [
        (["task_1"], ("task_1",), 0),
        (["1", "task_1", " 1 "], ("task_1",), 0),
        (["task_4"], (), 1),  # itself
        (["task_9", "x", "-1", "0", "task_1"], ("task_1",), 4),
        (["task_3", "task_2"], ("task_3", "task_2"), 0),
    ],
)
def test_what_a_task_cannot_wait_for_is_left_out(
    blocked_by: list[str], waits_for: tuple[str, ...], warned: int
) -> None:
    found, warnings = CHAIN.with_task(Task(0, "d"), blocked_by)

    task = found.shown()[-1]
    assert (task["id"], tuple(task["blocked_by"]), len(warnings)) == ("task_4", waits_for, warned)
    assert task["status"] == ("blocked" if waits_for else "pending")


def test_of_many_mistakes_the_first_are_told() -> None:
    _, warnings = CHAIN.with_task(Task(0, "d"), [f"task_{n}" for n in range(10, 1_010)])

    assert len(warnings) == 21
    assert "ignored 'task_10'" in warnings[0]
    assert warnings[-1] == "ignored 980 more entries of blocked_by"


def test_completing_frees_who_waits_for_nothing_else() -> None:
    found, runnable = CHAIN.with_completed("task_1")
    assert [task.announced()["id"] for task in runnable] == ["task_2"]
    assert statuses(found) == ["completed", "pending", "blocked"]

    found, runnable = found.with_completed("2")
    assert [task.id for task in runnable] == ["task_3"]

    found, warnings = found.with_task(Task(0, "d"), ["task_1"])
    assert (found.shown()[-1]["status"], warnings) == ("pending", [])


def test_failing_leaves_them_blocked() -> None:
    found, dependents = CHAIN.with_failed("task_1")

    assert [task.id for task in dependents] == ["task_2", "task_3"]
    assert statuses(found) == ["failed", "blocked", "blocked"]
    found, _ = found.with_task(Task(0, "d"), ["task_1"])
    assert found.shown()[-1]["status"] == "blocked"


@pytest.mark.parametrize("name", ["task_9", "", "x", "task_1"])
def test_what_is_unknown_or_over_is_refused(name: str) -> None:
    found, _ = CHAIN.with_completed("task_1")

    for action in (found.with_completed, found.with_failed):
        with pytest.raises(TaskRefused, match=r"no task|already completed"):
            action(name)


def test_a_task_is_claimed_once_and_only_when_it_may_be_begun() -> None:
    found = CHAIN.claimed("1", "agent_x_1")

    assert (found.tasks[0].status, found.tasks[0].owner) == ("in_progress", "agent_x_1")
    for name, said in (("1", "in_progress by agent_x_1"), ("2", "blocked"), ("7", "no task")):
        with pytest.raises(TaskRefused, match=said):
            found.claimed(name, "agent_y_2")
    assert statuses(found.with_completed("1")[0]) == ["completed", "pending", "blocked"]


def test_tasks_of_agents_are_due_once_nothing_blocks_them() -> None:
    found, _ = CHAIN.with_task(Task(0, "d", agent="x", prompt="go"), ["task_1"])
    assert found.due() == []

    found, _ = found.with_completed("task_1")
    assert [task.id for task in found.due()] == ["task_4"]
    assert found.claimed("task_4", "auto:x").due() == []
