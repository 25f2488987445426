"""`code-reviewer` and `file-reviewer` on a git repository, their models scripted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from sleipnir.scheduler.runs.model import Run
from tests.support.conversations import converses, results, turn_of
from tests.support.engine import Engine
from tests.support.git_repository import GitRepository
from tests.support.model_server import ModelServer, Reply, Request, calls, says
from tests.support.shipped import Shipped, own_tool, told
from tests.support.supervising import agents_in, collects_all

PROMPT = "Review my changes."
SEVERITIES = ("critical", "warning", "suggestion", "nitpick")
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


@pytest.fixture
def shipped(engine: Engine, server: ModelServer) -> Shipped:
    return Shipped(engine)


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


def test_a_repository_with_one_commit_or_none_has_no_changes(tmp_path: Path) -> None:
    repository = GitRepository(tmp_path / "young")
    nothing = ("nothing: there is no earlier commit", [])

    assert changed(repository) == nothing
    repository.commit({"README.md": "A project.\n"})
    assert changed(repository) == nothing


def test_outside_of_a_repository_it_is_said_what_to_set(tmp_path: Path) -> None:
    directory = tmp_path / "plain"
    directory.mkdir()

    for function in ("changed_files", "get_diff"):
        said = own_tool("code-reviewer", function, {}, directory)
        assert said == f"{directory} is not in a git repository; set project_dir\n"


def review(shipped: Shipped, repository: GitRepository) -> Run:
    """Ask for a review; the roster is sent before any reviewer looks."""
    run_id = shipped.submit("code-reviewer", PROMPT, workdir=str(repository.directory))
    return shipped.go_on(run_id, newest_first=True)


def test_ten_files_are_reviewed_side_by_side_and_no_finding_is_shortened(
    shipped: Shipped, server: ModelServer, repository: GitRepository
) -> None:
    repository.write(AFTER)
    files = sorted(AFTER)
    findings = {
        file: f"[{severity}] lines 1-2\n{file} breaks its callers. {500 * 'Really. '}\nAdapt them."
        for file, severity in zip(files, cycle(SEVERITIES), strict=False)
    }
    converses(
        server,
        PROMPT,
        calls(("changed_files", {}), ("get_diff", {})),
        calls(*(spawn(f"Review `{file}`.") for file in files)),
        sends_roster(*files),
        collects_all,
        merges(turn=5),
    )
    for file in files:
        looks = calls(("agent__check_inbox", {}))
        converses(server, f"Review `{file}`.", looks, reports(file, findings[file]))

    run = review(shipped, repository)

    assert run.status == "succeeded", run.failure
    assert run.output is not None
    for finding in findings.values():
        assert finding in run.output
    assert '"summarized"' not in str(results(server, PROMPT))
    listed, diff, *_ = told(server, PROMPT)
    assert [each["file"] for each in listed["files"]] == files
    assert listed["files"][0] == {"file": "cmd/tool0.go", "added": 1, "removed": 1}
    assert diff.count("diff --git") == 10
    # Each knew of its siblings before it looked.
    for file in files:
        inbox = json.dumps(told(server, f"Review `{file}`."))
        assert all(f"reviews {other}" in inbox for other in files)


def test_of_more_than_ten_files_the_small_ones_of_a_directory_share_a_reviewer(
    engine: Engine, shipped: Shipped, server: ModelServer, repository: GitRepository
) -> None:
    long = "".join(f"const Line{n} = {n}\n" for n in range(25))
    repository.write({**AFTER, "cmd/tool0.go": long, "cmd/tool1.go": long, "web/new.ts": "new"})
    repository.git("add", "--intent-to-add", ".")
    converses(
        server,
        PROMPT,
        calls(("changed_files", {})),
        asks_for_each_group,
        spawns_for_each_diff,
        collects_all,
        merges(turn=5),
    )
    server.when("diff --git", says("## Findings\nnone\nREVIEW_COMPLETE"))

    run = review(shipped, repository)

    assert run.status == "succeeded", run.failure
    assert len(engine.queries.children(run.run_id)) == 5
    handed_over = {
        tuple(re.findall(r"^diff --git a/(\S+)", request.prompt, re.MULTILINE))
        for request in server.requests
        if request.prompt.startswith("Review these.")
    }
    assert handed_over == {
        ("cmd/tool0.go",),
        ("cmd/tool1.go",),
        ("cmd/tool2.go",),
        tuple(f"src/part{n}.py" for n in range(4)),
        ("web/new.ts", *(f"web/view{n}.ts" for n in range(3))),
    }


def test_one_file_has_one_reviewer_and_no_roster(
    engine: Engine, shipped: Shipped, server: ModelServer, repository: GitRepository
) -> None:
    repository.write({"src/part0.py": AFTER["src/part0.py"]})
    converses(
        server,
        PROMPT,
        calls(("changed_files", {})),
        calls(("get_diff", {"paths": ["src/part0.py"]})),
        calls(spawn("Review `part0`.")),
        collects_all,
        merges(turn=5),
    )
    converses(
        server,
        "Review `part0`.",
        calls(("agent__check_inbox", {}), ("fs_grep", {"pattern": "part", "path": "."})),
        reports("src/part0.py", "[warning] lines 1-2\nNobody gives a scale.\nGive it a default."),
    )

    run = review(shipped, repository)

    assert (run.status, len(engine.queries.children(run.run_id))) == ("succeeded", 1)
    assert "[warning] lines 1-2\nNobody gives a scale." in str(run.output)
    assert told(server, PROMPT)[1].count("diff --git") == 1
    inbox, hits = told(server, "Review `part0`.")
    assert inbox["messages"] == []
    assert "src/part0.py" in hits


def test_without_changes_nobody_is_started(
    engine: Engine, shipped: Shipped, server: ModelServer, tmp_path: Path
) -> None:
    repository = GitRepository(tmp_path / "young")
    repository.commit({"README.md": "A project.\n"})
    both = calls(("changed_files", {}), ("get_diff", {}))
    converses(server, PROMPT, both, says("There are no changes."))

    run = review(shipped, repository)

    assert (run.status, run.output) == ("succeeded", "There are no changes.")
    assert engine.queries.children(run.run_id) == []
    listed, diff = told(server, PROMPT)
    assert (listed["files"], diff) == ([], "there are no changes")


def test_reviewers_warn_each_other_of_what_changes_for_their_files(
    shipped: Shipped, server: ModelServer, repository: GitRepository
) -> None:
    files = ["src/part0.py", "web/view0.ts"]
    repository.write({file: AFTER[file] for file in files})
    converses(
        server,
        PROMPT,
        calls(("changed_files", {})),
        calls(*(spawn(f"Review `{file}`.") for file in files)),
        sends_roster(*files),
        collects_all,
        merges(turn=5),
    )
    looks = calls(("agent__check_inbox", {}))
    converses(
        server, "Review `web/view0.ts`.", looks, warns("src/part0.py"), reports(files[1], "none")
    )
    converses(server, "Review `src/part0.py`.", looks, looks, reports(files[0], "none"))

    run = review(shipped, repository)

    assert run.status == "succeeded", run.failure
    assert "status" in told(server, "Review `web/view0.ts`.")[1]
    assert "`view` is 10 now" in json.dumps(told(server, "Review `src/part0.py`."))


# ---- what the models say


def spawn(prompt: str) -> tuple[str, dict[str, Any]]:
    return "agent__spawn", {"agent": "file-reviewer", "prompt": prompt}


def sends_roster(*files: str) -> Callable[[Request], Reply]:
    """A reply that tells each reviewer who reviews what."""

    def reply(request: Request) -> Reply:
        ids = agents_in(request)
        roster = "; ".join(f"{id_} reviews {file}" for id_, file in zip(ids, files, strict=True))
        return calls(*(("agent__send_message", {"id": id_, "message": roster}) for id_ in ids))

    return reply


def warns(file: str) -> Callable[[Request], Reply]:
    """A reply that tells the reviewer of a file, as the roster names it, what has changed."""

    def reply(request: Request) -> Reply:
        found = re.search(rf"(agent_\S+) reviews {file}", request.text)
        assert found is not None
        message = {"id": found[1], "message": "`view` is 10 now"}
        return calls(("agent__send_message", message), ("agent__check_inbox", {}))

    return reply


def asks_for_each_group(request: Request) -> Reply:
    """A reply that asks for the diffs of groups formed by the rule that the agent was told."""
    assert "fewer than 20 changed" in request.text
    groups: dict[str, list[str]] = {}
    for each in json.loads(request.prompt)["files"]:
        small = each["added"] + each["removed"] < 20
        group = str(Path(each["file"]).parent) if small else each["file"]
        groups.setdefault(group, []).append(each["file"])
    return calls(*(("get_diff", {"paths": paths}) for paths in groups.values()))


def spawns_for_each_diff(request: Request) -> Reply:
    """A reply that hands each diff that was asked for to a reviewer."""
    told = [json.loads(each["content"]) for each in request.messages if each["role"] == "tool"]
    return calls(*(spawn(f"Review these.\n{each['output']}") for each in told if "output" in each))


def reports(file: str, finding: str) -> Reply:
    return says(f"## File\n`{file}`\n## Findings\n{finding}\nREVIEW_COMPLETE")


def merges(turn: int) -> Callable[[Request], Reply]:
    """A reply with the findings of all reports that were collected."""

    def reply(request: Request) -> Reply:
        assert turn_of(request) == turn
        contents = [m["content"] for m in request.messages if m["role"] == "tool"]
        told = [json.loads(content) for content in contents if content.startswith("{")]
        outputs = [each["output"] for each in told if each.get("status") == "completed"]
        return says("# Review\n## Findings\n" + "\n".join(outputs))

    return reply
