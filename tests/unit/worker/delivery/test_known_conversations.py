"""What a worker process knows of conversations: it is right, and a turn reads what is new alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field

import pytest

from sleipnir.graphs.state import Snapshot, encode
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.conversation import memory
from sleipnir.scheduler.runs.conversation.memory import Conversation, conversation_of, turn_key
from sleipnir.scheduler.runs.model import Begun, RunContext
from sleipnir.worker.delivery.known_conversations import KnownConversations

TURNS = 5


@dataclass
class Stored:
    """A run as Redis has it, and what was read of it."""

    state: dict[str, str] = field(default_factory=dict)
    life: str = "first"
    read: list[Collection[str] | None] = field(default_factory=list)
    staged: bool = False

    def say(self, turn: int, text: str) -> None:
        self.state[turn_key(turn)] = encode([{"role": "assistant", "content": text}])

    def begin(self, keys: Collection[str] | None) -> Begun:
        self.read.append(keys)
        wanted = self.state if keys is None else [key for key in keys if key in self.state]
        found = Snapshot({key: self.state[key] for key in wanted})
        return Begun(
            *(self.staged, 1, 1, 1, 1, 0, 0.0, 0, 0, None, {}),
            *(RunContext(), None, "", {}, self.life, found),
        )


@pytest.fixture
def stored() -> Stored:
    """A run of some turns."""
    run = Stored({memory.PROMPT: '"Hello."'})
    for turn in range(1, TURNS + 1):
        run.say(turn, f"turn {turn}")
    return run


def begun(known: KnownConversations, stored: Stored, step: int, run_id: str = "r") -> Snapshot:
    """The state that the turn sees; what was read for it is all there is in `stored.read`."""
    stored.read.clear()
    return known.begin(run_id, step, stored.begin).state


def said(state: Snapshot) -> list[str]:
    return [message["content"] for message in conversation_of(state).own]


def is_all_read(stored: Stored) -> bool:
    return stored.read[-1] is None


def test_the_turns_that_are_known_are_not_read_again(stored: Stored) -> None:
    known = KnownConversations()
    begun(known, stored, TURNS + 1)
    stored.say(TURNS + 1, "of another worker")
    stored.say(TURNS + 2, "of another worker, too")

    state = begun(known, stored, TURNS + 3)

    whole = conversation_of(Snapshot(stored.state))
    assert conversation_of(state) == whole
    assert said(state)[-2:] == ["of another worker", "of another worker, too"]
    (keys,) = stored.read
    assert keys is not None
    assert [key for key in keys if memory.is_turn(key)] == [turn_key(TURNS + n) for n in range(3)]
    assert state[memory.PROMPT] == "Hello."


def test_a_session_keeps_what_was_said_in_earlier_runs_apart() -> None:
    run, known = Stored(), KnownConversations()
    for turn in range(-1, 3):
        run.say(turn, str(turn))
    begun(known, run, 3)
    run.say(3, "3")

    conversation = conversation_of(begun(known, run, 4))

    assert not is_all_read(run)
    assert [message["content"] for message in conversation.earlier] == ["-1", "0"]
    assert [message["content"] for message in conversation.own] == ["1", "2", "3"]
    assert conversation.turns == [-1, 0, 1, 2, 3]


def _goes_on_after_its_end(stored: Stored) -> None:
    stored.life = "second"
    stored.say(2, "said anew")


def _loses_writes(stored: Stored) -> None:
    stored.say(TURNS, "said anew")


def _is_compressed(stored: Stored) -> None:
    stored.state |= {turn_key(turn): "[]" for turn in range(1, TURNS)}
    stored.state[memory.SUMMARY] = '"In short."'


@pytest.mark.parametrize("change", [_goes_on_after_its_end, _loses_writes, _is_compressed])
def test_a_conversation_that_has_changed_is_read_anew(stored: Stored, change) -> None:  # type: ignore[no-untyped-def]
    known = KnownConversations()
    begun(known, stored, TURNS + 1)
    change(stored)
    stored.say(TURNS + 1, "next")

    assert said(begun(known, stored, TURNS + 2)) == said(Snapshot(stored.state))
    assert is_all_read(stored)
    stored.say(TURNS + 2, "after that")
    begun(known, stored, TURNS + 3)
    assert not is_all_read(stored)


def test_a_run_that_went_back_is_read_anew(stored: Stored) -> None:
    known = KnownConversations()
    begun(known, stored, TURNS + 1)
    for turn in range(3, TURNS + 1):
        del stored.state[turn_key(turn)]

    assert said(begun(known, stored, 3)) == ["turn 1", "turn 2"]
    assert stored.read == [None]


def test_what_is_kept_is_bounded(stored: Stored) -> None:
    size = sum(len(text) for key, text in stored.state.items() if memory.is_turn(key))
    known = KnownConversations(limit_bytes=2 * size)
    for run_id in ("a", "b", "c"):
        begun(known, stored, TURNS + 1, run_id)

    whole_read = []
    for run_id in ("c", "b", "a"):
        begun(known, stored, TURNS + 1, run_id)
        whole_read.append(is_all_read(stored))
    assert whole_read == [False, False, True]
    too_large = KnownConversations(limit_bytes=size - 1)
    for _ in range(2):
        begun(too_large, stored, TURNS + 1)
        assert is_all_read(stored)


def test_a_visit_that_only_has_to_advance_keeps_its_state(stored: Stored) -> None:
    stored.staged = True
    assert begun(KnownConversations(), stored, TURNS + 1).text(turn_key(1)) is not None


def test_all_that_runs_remember_besides_their_turns_is_read() -> None:
    names = {
        value
        for name, value in vars(memory).items()
        if name.isupper() and isinstance(value, str) and not name.startswith("_")
    }
    assert set(memory.BESIDES) == names
    assert conversation_of(Snapshot({})) == Conversation([], [], [])
