"""Files that somebody named: only plain ones are read, and nothing is waited for."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from sleipnir.graphs.bundles.archive import Part, pack
from sleipnir.graphs.document.document import read_document
from sleipnir.graphs.env_file import read_env_file
from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.files import (
    UnusableFile,
    open_input,
    open_output,
    open_plain,
    read_bytes,
    read_text,
    require_plain_or_new,
)
from sleipnir.graphs.mcp.reading import read_mcp_config
from sleipnir.graphs.tools.reader import read_tool_file


def pipe(directory: Path, name: str = "pipe") -> Path:
    os.mkfifo(directory / name)
    return directory / name


def bound_socket(directory: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(directory / "socket"))
    return directory / "socket"


def test_nothing_but_a_plain_file_is_opened(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(pipe(tmp_path))
    kinds = {
        tmp_path: "it is a directory, not a file",
        tmp_path / "link": "it is a named pipe, not a file",
        bound_socket(tmp_path): "it is a socket, not a file",
        Path("/dev/zero"): "it is a device, not a file",
    }

    for path, expected in kinds.items():
        with pytest.raises(UnusableFile) as refused:
            open_plain(path)
        assert str(refused.value) == expected
    with pytest.raises(FileNotFoundError):
        open_plain(tmp_path / "missing")


def test_a_file_is_read_as_far_as_it_may_be_large(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"a\r\nb")

    assert read_bytes(file, 4) == b"a\r\nb"
    assert read_text(file, 4) == "a\nb"
    os.truncate(file, 1 << 40)
    with pytest.raises(UnusableFile, match="it is larger than 1 MiB"):
        read_bytes(file, 1 << 20)


def test_every_reader_of_an_agents_files_refuses_a_pipe(tmp_path: Path) -> None:
    _, (finding,) = read_document(pipe(tmp_path, "graph.yaml"))
    assert finding.message == "cannot read graph.yaml: it is a named pipe, not a file"

    (finding,) = read_tool_file(pipe(tmp_path, "tools.py"), own=True).findings
    assert finding.message == "cannot read the tool file: it is a named pipe, not a file"

    pipe(tmp_path, "mcp.json")
    _, (finding,) = read_mcp_config(tmp_path)
    assert finding.message == "cannot read mcp.json: it is a named pipe, not a file"

    with pytest.raises(UnusableFile):
        read_env_file(pipe(tmp_path, ".env"))
    pipe(tmp_path, ".sleipnirignore")
    with pytest.raises(BundleError, match=r"cannot pack .*: it is a named pipe, not a file"):
        pack([Part("agents/a", tmp_path)])


def test_a_pipe_is_written_to_only_if_somebody_reads(tmp_path: Path) -> None:
    named = pipe(tmp_path)
    with pytest.raises(UnusableFile, match="it is a named pipe without a reader"):
        open_output(named)
    with pytest.raises(UnusableFile, match="it is a socket, not a file"):
        open_output(bound_socket(tmp_path))
    with pytest.raises(UnusableFile, match="it is a named pipe, not a file"):
        require_plain_or_new(named)

    reader = os.open(named, os.O_RDONLY | os.O_NONBLOCK)
    with open_output(named) as stream:
        stream.write(b"text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    require_plain_or_new(tmp_path / "new")


def test_what_the_shell_opened_may_be_anything() -> None:
    reading, writing = os.pipe()
    with open_output(Path(f"/dev/fd/{writing}")) as stream:
        stream.write(b"text")
    os.close(writing)

    with open_input(Path(f"/proc/self/fd/{reading}")) as stream:
        assert stream.read() == b"text"
    os.close(reading)
