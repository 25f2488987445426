"""What the coordinator of a review learns of a diff."""

# @meta require-tools git

from __future__ import annotations

import subprocess

from sleipnir import codebase, git

MAX_DIFF = 400_000  # characters


def changed_files(base: str = "") -> dict:
    """List the changed files with the lines added and removed, and what they are compared with.

    Args:
        base: A branch, tag or commit to compare with. Without it: what is staged, else what is not,
            else the last commit.
    """
    compared, arguments = _range(base)
    counts = _git("diff", "--numstat", "--no-renames", *arguments).splitlines()
    return {"compared": compared, "files": [_counted(line) for line in counts]}


def get_diff(base: str = "", paths: list[str] | None = None) -> str:
    """Show the diff, of all changed files or of some, compared as `changed_files` says.

    Args:
        base: As given to `changed_files`.
        paths: Only these files, relative to the root of the repository.
    """
    _, arguments = _range(base)
    diff = _git(
        "diff", "--no-renames", "--no-color", "--no-ext-diff", *arguments, "--", *(paths or [])
    )
    if len(diff) > MAX_DIFF:
        raise SystemExit(f"the diff has {len(diff)} characters; ask for fewer paths at a time")
    return diff or "there are no changes"


def project_info() -> dict:
    """Tell what kind of project it is, and its commands to build, test and check."""
    return codebase.detected().as_dict()


def _range(base: str) -> tuple[str, list[str]]:
    """What is compared, in words and as arguments of `git diff`."""
    if not _succeeds("rev-parse", "--git-dir"):
        raise SystemExit(f"{codebase.root()} is not in a git repository; set project_dir")
    if base:
        if base.startswith("-"):
            raise SystemExit(f"not a branch, tag or commit: {base}")
        _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}")
        return f"{base}...HEAD", [f"{base}...HEAD"]
    if _git("diff", "--cached", "--name-only").strip():
        return "what is staged", ["--cached"]
    if _git("diff", "--name-only").strip():
        return "what is not staged", []
    if not _succeeds("rev-parse", "--verify", "--quiet", "HEAD~1"):
        return "nothing: there is no earlier commit", []
    return "the last commit", ["HEAD~1", "HEAD"]


def _counted(line: str) -> dict:
    added, removed, path = line.split("\t", 2)
    if added == "-":
        return {"file": path, "binary": True}
    return {"file": path, "added": int(added), "removed": int(removed)}


def _git(*arguments: str) -> str:
    ended = _run(arguments)
    if ended.returncode != 0:
        said = ended.stderr.decode("utf-8", errors="replace").strip()
        raise SystemExit(f"git {arguments[0]} failed: {said or 'there is no such commit'}")
    return ended.stdout.decode("utf-8", errors="replace")


def _succeeds(*arguments: str) -> bool:
    return _run(arguments).returncode == 0


def _run(arguments: tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
    return git.look(arguments, codebase.root())
