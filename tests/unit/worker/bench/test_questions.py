"""The questions of the quality benchmark: their answers are there, most ask in other words."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import mean

import pytest

from sleipnir.worker.bench.rag.corpus import Corpus, corpus
from sleipnir.worker.bench.rag.questions import KnownQuestion, questions
from sleipnir.worker.knowledge.words import words_of


@pytest.fixture(scope="module")
def searched() -> Corpus:
    return corpus()


def test_there_are_three_questions_for_each_place_and_no_place_is_missing(searched: Corpus) -> None:
    asked = questions()

    kinds = [question.kind for question in asked]
    assert kinds == ["verbatim", "natural", "reworded"] * (len(asked) // 3)
    assert len({question.place for question in asked}) == len(asked) / 3 >= 150
    missing = [question.place for question in asked if question.place not in searched.spans]
    assert not missing, "the packages have changed: ask for something else"


def test_other_words_are_other_words(searched: Corpus) -> None:
    def shared(question: KnownQuestion) -> float:
        """How many of a question's words its answer has, in any form."""
        document = next(d for d in searched.documents if d.source == question.place.source)
        first, last = searched.spans[question.place]
        words = set(words_of(question.text))
        return len(words & set(words_of(document.text[first:last]))) / len(words)

    def average(kind: str, asked: Iterable[KnownQuestion]) -> float:
        return mean(shared(question) for question in asked if question.kind == kind)

    assert average("verbatim", questions()) > 0.8
    assert 0.2 < average("natural", questions()) < 0.5
    assert average("reworded", questions()) < 0.2
