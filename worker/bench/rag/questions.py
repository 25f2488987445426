"""Questions whose answers' places are known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from sleipnir.worker.bench.rag.corpus import Place

# In the words of the text, in others but for names, in others throughout.
Kind: TypeAlias = Literal["verbatim", "natural", "reworded"]

_FILE = Path(__file__).with_name("questions.txt")
_MARKS: dict[str, Kind] = {"=": "verbatim", "-": "natural", "~": "reworded"}


@dataclass(frozen=True, slots=True)
class Question:
    """One question, and where its answer is."""

    place: Place
    kind: Kind
    text: str


def questions() -> list[Question]:
    """All of them, in the order of their file, which says how they were made."""
    found: list[Question] = []
    place = Place("", "")
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        mark, _, rest = line.partition(" ")
        if mark == "@@":
            place = Place(*rest.split())
        elif mark in _MARKS:
            found.append(Question(place, _MARKS[mark], rest))
    return found
