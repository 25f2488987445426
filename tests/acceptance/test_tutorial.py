"""docs/tutorial.md, typed in as it stands, with a scripted model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.support.command_line import Sleipnir
from tests.support.model_server import ModelServer, Request, says
from tests.support.pages import blocks

# What the model answers to messages with these words in them.
DRAFTS = {
    "I love": {"answer": "Thank you for your kind words!", "angry": False},
    "broken": {"answer": "We are sorry, a new one is on its way.", "angry": True},
    "colours": {"answer": "Red and blue.", "angry": False},
}


def test_the_tutorial_works_as_written(tmp_path: Path) -> None:
    with ModelServer() as server:
        for words, draft in DRAFTS.items():
            server.when(_has(words), says(json.dumps(draft)))
        sleipnir = Sleipnir(
            tmp_path,
            OPENAI_BASE_URL=server.base_url,
            OPENAI_API_KEY="sk-only-for-this-test",
        )
        with sleipnir.up():  # or each of the commands would start an engine
            done = sleipnir.type_in("\n".join(blocks("tutorial.md", "bash")), sleipnir.project)

    assert done.returncode == 0, done.stdout
    assert "Thank you! I love the new kettle." in done.stdout
    assert "A complaint: The kettle came broken." in done.stdout
    assert "A complaint about order 4711: The kettle of" in done.stdout
    assert "2 passed" in done.stdout
    rows = map(json.loads, (sleipnir.project / "answers.jsonl").read_text().splitlines())
    answers = [draft["answer"] for draft in DRAFTS.values()]
    assert {row["id"]: row["output"] for row in rows} == dict(
        zip(("ada", "ben", "cleo"), answers, strict=True)
    )


def _has(words: str) -> Callable[[Request], bool]:
    def matches(request: Request) -> bool:
        return words in request.text

    return matches
