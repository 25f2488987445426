"""Writes a file."""

# @meta alias contents=content

from __future__ import annotations

from sleipnir import files


def run(path: str, content: str) -> str:
    """Write a whole file, with the parent directories it lacks; what was in it is replaced.

    To change a part of a file use fs_patch.

    Args:
        path: The file to write, absolute or relative to the working directory.
        content: The complete new content of the file.
    """
    overwrites = files.resolved(path).exists()
    file = files.to_write(path, "overwrite" if overwrites else "write", ask=overwrites)
    data = content.encode("utf-8", errors="surrogatepass")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    except OSError as error:
        raise SystemExit(f"cannot write {path}: {error.strerror}") from error
    return f"Wrote {len(data)} bytes to {path}"
