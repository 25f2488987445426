"""What somebody at a terminal is asked about a knowledge base."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.graphs.knowledge.bases import DescribedBase
from sleipnir.scheduler.cli.asking import knowledge

BASE = DescribedBase("rag", ["docs"], None)
NOTHING = dict.fromkeys(("embedding_model", "chunk_size", "chunk_overlap"))


@pytest.mark.parametrize(
    ("typed", "defaults", "chosen"),
    [
        (["n"], NOTHING, None),
        (["y", ""], NOTHING, {"embedding_model": "none"}),
        (
            ["", "own:m", "20", "x", "20", "5"],
            {**NOTHING},
            {"embedding_model": "own:m", "chunk_size": 20, "chunk_overlap": 5},
        ),
        (["", "10", "11"], {**NOTHING, "embedding_model": "own:m", "chunk_overlap": 10}, 11),
    ],
)
def test_each_knowledge_base_is_asked_about_once(
    monkeypatch: pytest.MonkeyPatch, typed: list[str], defaults: dict[str, Any], chosen: Any
) -> None:
    lines = iter(typed)
    monkeypatch.setattr(knowledge, "read_line", lambda: next(lines))
    ask = knowledge.BuildQuestions(["own"])

    first, second = (ask("talker", BASE, defaults) for _ in range(2))

    assert first == second == ({"chunk_size": chosen} if isinstance(chosen, int) else chosen)
    assert list(lines) == []


@pytest.mark.parametrize(("typed", "goes_on"), [("y", True), ("", False), ("no", False)])
def test_documents_are_left_out_only_if_somebody_says_so(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: str,
    goes_on: bool,
) -> None:
    lines = iter([typed, "y"])
    monkeypatch.setattr(knowledge, "read_line", lambda: next(lines))
    ask = knowledge.BuildQuestions([])
    failures = [("./a.odt", "it is not text in UTF-8")]

    assert [ask.leaves_out("talker", BASE, failures) for _ in range(2)] == [goes_on] * 2
    assert "./a.odt: it is not text in UTF-8" in capsys.readouterr().err
    assert ask.leaves_out("talker", BASE, [*failures, ("./b.odt", "empty")])
