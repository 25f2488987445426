"""Changes a file by a diff."""

# @meta alias contents=content

from __future__ import annotations

from pathlib import Path

from sleipnir.patch import PatchFailed, apply_patch, read_patch

from sleipnir import files


def run(path: str, content: str) -> str:
    """Change parts of a file by a unified diff.

    Every context line and every removed line must be exactly as it is in the file. If one hunk
    does not fit, nothing is changed and the result says which line differs.

    Args:
        path: The file to change, absolute or relative to the working directory.
        content: The diff: hunks that begin with `@@ -line,count +line,count @@`, their lines
            beginning with a blank (context), `-` (removed) or `+` (added).
    """
    try:
        hunks = read_patch(content)
        old = _text(
            files.to_read(path, climbing=True), path, may_be_new=not any(hunk.old for hunk in hunks)
        )
        new = apply_patch(old, hunks)
    except PatchFailed as error:
        raise SystemExit(f"cannot patch {path}: {error}") from error
    print(content)
    file = files.to_write(path, "apply this patch to", ask=True, detail=content)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(new.encode("utf-8", errors="surrogateescape"))
    except OSError as error:
        raise SystemExit(f"cannot write {path}: {error.strerror}") from error
    return f"Changed {path}: {len(hunks)} hunk{'s' * (len(hunks) != 1)} applied"


def _text(file: Path, path: str, may_be_new: bool) -> str:
    """The text of a file; bytes that are not UTF-8 survive being written again."""
    if may_be_new and not file.exists():
        return ""
    try:
        return file.read_bytes().decode("utf-8", errors="surrogateescape")
    except OSError as error:
        raise SystemExit(f"cannot read {path}: {error.strerror}") from error
