"""What people get to read of a reply while the model is at it."""

from __future__ import annotations

import pytest

from sleipnir.worker.conversation.token_stream import INTERVAL_S, TokenStream


class Room:
    """Where a reply is spoken: a clock moved by hand, and what was heard."""

    def __init__(self, *secrets: str) -> None:
        self.now = 0.0
        self.said: list[str] = []
        self.stream = TokenStream(self.said.append, secrets, lambda: self.now)

    def on_text(self, *texts: str, every_s: float = INTERVAL_S) -> None:
        for text in texts:
            self.stream.on_text(text)
            self.now += every_s


def test_the_first_words_are_said_at_once_and_others_together() -> None:
    room = Room()

    room.on_text("one ", "two ", "three ", "four ", "five ", every_s=INTERVAL_S / 2)
    room.stream.end()

    assert room.said == ["one ", "two three ", "four five "]


def test_a_word_is_said_when_it_is_whole() -> None:
    room = Room()

    room.on_text("on", "e tw", "o")
    room.stream.end()

    assert room.said == ["one ", "two"]


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        (("<thi", "nk>secret pl", "an</th", "ink>\n\n", "The ", "answer"), "The answer"),
        (("<Thought>a</thought>", "<think>b ", "c</think> yes ", "<think> no"), "yes <think> no"),
        (("<th", "under> it is"), "<thunder> it is"),
        ((" \n", "plain <think> text</think>"), " \nplain <think> text</think>"),
        (("<think>cut ", "off "), ""),
        (("<th",), "<th"),
    ],
)
def test_thoughts_before_the_answer_are_not_said(pieces: tuple[str, ...], said: str) -> None:
    room = Room()

    for _ in range(2):
        room.on_text(*pieces)
        room.stream.end()

    assert "".join(room.said) == 2 * said


def test_a_text_without_blanks_flows_too() -> None:
    room = Room()

    room.on_text("東京", "は")

    assert room.said == ["東京", "は"]


@pytest.mark.parametrize("secret", ["s3cret-word", "several secret words", "пароль пароль"])
def test_a_secret_is_masked_wherever_it_is_cut(secret: str) -> None:
    text = f"it is {secret} and no more"
    for cut in range(len(text)):
        room = Room(secret)

        room.on_text(text[:cut], text[cut:])
        room.stream.end()

        assert "".join(room.said) == "it is *** and no more"


def test_what_looks_like_a_key_is_masked() -> None:
    room = Room()

    room.on_text(*"use sk-0123456789abcdef now")
    room.stream.end()

    assert "".join(room.said) == "use *** now"


def test_nothing_is_said_of_nothing() -> None:
    room = Room()

    room.stream.end()

    assert room.said == []
