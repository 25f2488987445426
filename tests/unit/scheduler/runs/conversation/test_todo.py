"""The todo list, and when a model that stops is told to go on with it."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.runs.conversation.todo import TodoList


def listed(*tasks: str) -> TodoList:
    todos = TodoList().begun("tea")
    for task in tasks:
        todos, _ = todos.with_task(task)
    return todos


def test_ids_go_on_from_the_highest() -> None:
    todos, number = listed("boil", "pour").with_task("drink")

    assert number == 3
    assert todos.cleared().with_task("again")[1] == 1


def test_an_item_that_is_not_there_cannot_be_done() -> None:
    with pytest.raises(KeyError):
        listed("boil").with_done(2)


def test_it_is_shown_with_its_progress() -> None:
    assert listed("boil", "pour").with_done(1).rendered() == (
        "Goal: tea\nProgress: 1/2 completed\n  ✓ 1. boil\n  ○ 2. pour"
    )
    assert TodoList().with_task("boil")[0].rendered() == "Progress: 0/1 completed\n  ○ 1. boil"


def test_what_is_stored_is_read_back() -> None:
    todos = listed("boil").continued_after("later")

    assert TodoList.from_json(todos.to_json()) == todos


def test_a_model_is_told_to_go_on_while_something_is_open() -> None:
    assert listed("boil").is_to_continue("done", 1)
    assert not listed("boil").with_done(1).is_to_continue("done", 1)
    assert not TodoList().is_to_continue("done", 1)


def test_it_is_told_so_often_and_no_more() -> None:
    once = listed("boil").continued_after("one")

    assert not once.is_to_continue("two", 1)
    assert once.is_to_continue("two", 2)
    assert once.cleared().continued == 0


def test_the_same_words_again_end_it_unless_the_list_has_changed() -> None:
    once = listed("boil").continued_after(" later\n")

    assert not once.is_to_continue("later", 9)
    assert once.is_to_continue("now", 9)
    assert once.with_task("pour")[0].is_to_continue("later", 9)
    assert not once.with_task("pour")[0].with_done(1).with_done(2).is_to_continue("later", 9)
    done = listed("boil", "pour").with_done(1).continued_after("later")
    assert not done.with_done(1).is_to_continue("later", 9)
