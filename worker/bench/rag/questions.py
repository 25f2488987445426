"""Questions with known places of their answers."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from sleipnir.records import dataclass
from sleipnir.worker.bench.rag.corpus import AnswerPlace

# In the words of the text; in other words except for names; in other words throughout.
Kind: TypeAlias = Literal["verbatim", "natural", "reworded"]

_FILE = Path(__file__).with_name("questions.txt")
_MARKS: dict[str, Kind] = {"=": "verbatim", "-": "natural", "~": "reworded"}


@dataclass(frozen=True, slots=True)
class KnownQuestion:
    """One question, and where its answer is."""

    place: AnswerPlace
    kind: Kind
    text: str


def questions() -> list[KnownQuestion]:
    """Return all questions, in the order of their file, which explains how they were made."""
    found: list[KnownQuestion] = []
    place = AnswerPlace("", "")
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        mark, _, rest = line.partition(" ")
        if mark == "@@":
            place = AnswerPlace(*rest.split())
        elif mark in _MARKS:
            found.append(KnownQuestion(place, _MARKS[mark], rest))
    return found
