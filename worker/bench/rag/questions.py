"""Questions whose answers' places are known."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from sleipnir.records import dataclass
from sleipnir.worker.bench.rag.corpus import AnswerPlace

# In the words of the text, in others but for names, in others throughout.
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
    """All of them, in the order of their file, which says how they were made."""
    found: list[KnownQuestion] = []
    place = AnswerPlace("", "")
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        mark, _, rest = line.partition(" ")
        if mark == "@@":
            place = AnswerPlace(*rest.split())
        elif mark in _MARKS:
            found.append(KnownQuestion(place, _MARKS[mark], rest))
    return found
