"""`code-reviewer` and `file-reviewer` on a git repository, their models scripted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.conversations import converses, turn_of
from tests.support.engine import Engine
from tests.support.git_repository import GitRepository
from tests.support.model_server import ModelServer, Reply, Request, calls, says
from tests.support.shipped import Shipped, own_tool, told
from tests.support.supervising import agents_in, collects_all

BEFORE = {
    **{f"src/part{n}.py": f"def part():\n    return {n}\n" for n in range(4)},
    **{f"web/view{n}.ts": f"export const view = {n};\n" for n in range(3)},
    **{f"cmd/tool{n}.go": f"package cmd\n\nconst Tool = {n}\n" for n in range(3)},
}
AFTER = {name: text.replace(" = ", " = 1") for name, text in BEFORE.items()} | {
    f"src/part{n}.py": f"def part(scale):\n    return {n} * scale\n" for n in range(4)
}


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    repository = GitRepository(tmp_path / "project")
    repository.commit({"README.md": "A project.\n"})
    repository.commit(BEFORE)
    return repository


def changed(repository: GitRepository, base: str = "") -> tuple[str, list[str]]:
    """What `changed_files` compares with, and which it finds."""
    found = own_tool("code-reviewer", "changed_files", {"base": base}, repository.directory)
    return found["compared"], [each["file"] for each in found["files"]]


def test_what_is_compared_is_the_base_the_index_the_files_or_the_last_commit(
    repository: GitRepository,
) -> None:
    assert changed(repository) == ("the last commit", sorted(BEFORE))
    repository.write({"src/part0.py": AFTER["src/part0.py"]})
    assert changed(repository) == ("what is not staged", ["src/part0.py"])
    repository.write({"web/view0.ts": AFTER["web/view0.ts"]})
    repository.git("add", "web")
    assert changed(repository) == ("what is staged", ["web/view0.ts"])
    assert changed(repository, "main~1") == ("main~1...HEAD", sorted(BEFORE))


def test_a_diff_is_that_of_the_files_asked_for(repository: GitRepository) -> None:
    repository.write(AFTER)

    diff = own_tool("code-reviewer", "get_diff", {"paths": ["src/part1.py"]}, repository.directory)

    assert diff.startswith("diff --git a/src/part1.py b/src/part1.py\n")
    assert "\n-    return 1\n+def part(scale):\n+    return 1 * scale\n" in diff
    assert "part2" not in diff


@pytest.mark.parametrize("base", ["--output=x", "no-such-branch"])
def test_a_base_that_is_none_is_refused(repository: GitRepository, base: str) -> None:
    said = own_tool("code-reviewer", "changed_files", {"base": base}, repository.directory)

    assert "commit" in said
    assert not (repository.directory / "x").exists()


def test_a_repository_with_one_commit_has_no_changes(tmp_path: Path) -> None:
    repository = GitRepository(tmp_path / "young")
    repository.commit({"README.md": "A project.\n"})

    assert changed(repository) == ("nothing: there is no earlier commit", [])


def test_ten_files_are_reviewed_side_by_side_by_reviewers_that_know_each_other(
    engine: Engine, server: ModelServer, repository: GitRepository
) -> None:
    shipped = Shipped(engine)
    repository.write(AFTER)
    files = sorted(AFTER)
    converses(
        server,
        "Review my changes.",
        calls(("changed_files", {}), ("get_diff", {})),
        calls(*(("agent__spawn", _reviewer(file)) for file in files)),
        lambda request: _roster(request, files),
        collects_all,
        lambda request: says(_merged(request)),
    )
    for file in files:
        converses(server, f"Review `{file}`.", calls(("agent__check_inbox", {})), _report(file))

    run_id = shipped.submit(
        "code-reviewer", "Review my changes.", workdir=str(repository.directory)
    )
    run = shipped.go_on(run_id, newest_first=True)  # the roster is sent before anybody looks

    assert run.status == "succeeded", run.failure
    assert run.output is not None
    for file in files:
        assert f"[critical] lines 1-2\n{file} breaks its callers." in run.output
    listed, diff, *_ = told(server, "Review my changes.")
    assert [each["file"] for each in listed["files"]] == files
    assert listed["files"][0] == {"file": "cmd/tool0.go", "added": 1, "removed": 1}
    assert diff.count("diff --git") == 10
    # Each knew of its siblings before it looked.
    for file in files:
        inbox = json.dumps(told(server, f"Review `{file}`."))
        assert all(f"reviews {other}" in inbox for other in files)


def _reviewer(file: str) -> dict[str, Any]:
    return {"agent": "file-reviewer", "prompt": f"Review `{file}`."}


def _roster(request: Request, files: list[str]) -> Reply:
    ids = agents_in(request)
    roster = "; ".join(f"{id_} reviews {file}" for id_, file in zip(ids, files, strict=True))
    return calls(*(("agent__send_message", {"id": id_, "message": roster}) for id_ in ids))


def _report(file: str) -> Reply:
    finding = f"[critical] lines 1-2\n{file} breaks its callers.\nAdapt them."
    return says(f"## File\n`{file}`\n## Findings\n{finding}\nREVIEW_COMPLETE")


def _merged(request: Request) -> str:
    """The findings of all reports that were collected."""
    assert turn_of(request) == 5
    contents = [json.loads(m["content"]) for m in request.messages if m["role"] == "tool"]
    outputs = [each["output"] for each in contents if each.get("status") == "completed"]
    return "# Review\n## Findings\n" + "\n".join(outputs)
