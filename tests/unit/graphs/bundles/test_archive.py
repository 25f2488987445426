"""Packing an agent, and unpacking what may be hostile."""

import gzip
import hashlib
import io
import os
import stat
import tarfile
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from sleipnir.graphs.bundles import archive as bundle_module
from sleipnir.graphs.bundles.archive import (
    Bundle,
    Part,
    pack,
    pack_into,
    remove_unpacked,
    unpack,
    unpack_from,
)
from sleipnir.graphs.errors import BundleError


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    directory = tmp_path / "agent"
    (directory / "scripts").mkdir(parents=True)
    (directory / "graph.yaml").write_text("name: agent\n")
    (directory / ".env").write_text("A=1\n")
    (directory / "scripts" / "go.sh").write_text("echo '{}'\n")
    (directory / "scripts" / "go.sh").chmod(0o755)
    return directory


def pack_agent(directory: Path, **limits: int) -> Bundle:
    return pack([Part("agent", directory)], **limits)


def contents(directory: Path) -> dict[str, str | None]:
    """Relative path to text, None for directories."""
    return {
        path.relative_to(directory).as_posix(): path.read_text() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }


def packed(*members: tarfile.TarInfo) -> Bundle:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    return Bundle(hashlib.sha256(buffer.getvalue()).hexdigest(), buffer.getvalue())


def member(name: str, kind: bytes = tarfile.REGTYPE, linkname: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, linkname
    info.size = 1 if kind == tarfile.REGTYPE else 0
    return info


def test_what_was_packed_comes_out_again(agent: Path, tmp_path: Path) -> None:
    bundle = pack_agent(agent)

    unpack(bundle.data, bundle.digest, tmp_path / "cache" / "out")

    assert contents(tmp_path / "cache" / "out" / "agent") == contents(agent)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["out"]


def test_the_same_files_make_the_same_bundle(agent: Path, tmp_path: Path) -> None:
    first = pack_agent(agent)
    copy = tmp_path / "elsewhere"
    for name, text in reversed(contents(agent).items()):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            (copy / name).write_text(text)
    (copy / "scripts" / "go.sh").chmod(0o700)
    os.utime(copy / "graph.yaml", (1, 1))

    assert pack_agent(copy) == first


def test_another_content_makes_another_bundle(agent: Path) -> None:
    first = pack_agent(agent)
    (agent / "graph.yaml").write_text("name: agenT\n")

    assert pack_agent(agent).digest != first.digest


def test_some_files_are_never_packed(agent: Path, tmp_path: Path) -> None:
    expected = contents(agent)
    for name in (".git/config", ".venv/bin/python", "scripts/__pycache__/a.pyc", "b.pyc"):
        (agent / name).parent.mkdir(parents=True, exist_ok=True)
        (agent / name).touch()
    (agent / "secrets.yaml").touch()

    bundle = pack_agent(agent)

    unpack(bundle.data, bundle.digest, tmp_path / "out")
    assert contents(tmp_path / "out" / "agent") == expected


def test_the_ignore_file_names_more(agent: Path, tmp_path: Path) -> None:
    expected = set(contents(agent)) | {".sleipnirignore", "data", "data/keep.csv", "raw"}
    (agent / ".sleipnirignore").write_text("# big\n\n*.bin\ndata/old.*\nraw/\n/top.txt\n")
    for name in ("a.bin", "scripts/b.bin", "data/old.csv", "data/keep.csv", "top.txt"):
        (agent / name).parent.mkdir(exist_ok=True)
        (agent / name).touch()
    (agent / "raw").touch()  # a file: the pattern names directories

    bundle = pack_agent(agent)

    unpack(bundle.data, bundle.digest, tmp_path / "out")
    assert set(contents(tmp_path / "out" / "agent")) == expected


def test_links_inside_the_agent_survive(agent: Path, tmp_path: Path) -> None:
    (agent / "scripts" / "same.sh").symlink_to(agent / "scripts" / "go.sh")
    (agent / "up.yaml").symlink_to("scripts/../graph.yaml")
    (agent / "dir").symlink_to("scripts")
    (agent / "scripts" / "root").symlink_to("..")

    bundle = pack_agent(agent)

    unpack(bundle.data, bundle.digest, tmp_path / "out")
    out = tmp_path / "out" / "agent"
    assert str((out / "scripts" / "same.sh").readlink()) == "go.sh"
    assert str((out / "up.yaml").readlink()) == "graph.yaml"
    assert (out / "dir" / "root" / "graph.yaml").read_text() == "name: agent\n"


@pytest.mark.parametrize(
    ("target", "words"),
    [("/etc/passwd", "outside the agent"), ("..", "outside the agent"), ("gone", "broken symlink")],
)
def test_links_that_leave_are_refused_by_name(agent: Path, target: str, words: str) -> None:
    (agent / "scripts" / "bad").symlink_to(target if target != ".." else "../..")

    with pytest.raises(BundleError, match=rf"'agent/scripts/bad'.*{words}"):
        pack_agent(agent)


def test_a_link_may_lead_to_another_part(agent: Path, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "help.sh").write_text("help\n")
    (agent / "scripts" / "help.sh").symlink_to(tmp_path / "lib" / "help.sh")

    bundle = pack([Part("agents/a", agent), Part("agents/.shared", tmp_path / "lib")])

    unpack(bundle.data, bundle.digest, tmp_path / "out")
    link = tmp_path / "out" / "agents" / "a" / "scripts" / "help.sh"
    assert str(link.readlink()) == "../../.shared/help.sh"
    assert link.read_text() == "help\n"


def test_a_part_may_be_a_file_a_link_or_a_text(agent: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(agent / "graph.yaml")
    parts = [
        Part("a/file", agent / "scripts" / "go.sh"),
        Part("a/linked", tmp_path / "link"),
        Part("text", b"{}"),
    ]

    bundle = pack(parts)

    unpack(bundle.data, bundle.digest, tmp_path / "out")
    assert contents(tmp_path / "out") == {
        "a": None,
        "a/file": "echo '{}'\n",
        "a/linked": "name: agent\n",
        "text": "{}",
    }
    assert pack(reversed(parts)) == bundle


def test_special_files_are_refused_by_name(agent: Path) -> None:
    os.mkfifo(agent / "pipe")

    with pytest.raises(BundleError, match="'agent/pipe': it is neither a file nor a directory"):
        pack_agent(agent)


def test_too_large_an_agent_is_refused_naming_where_it_was_too_much(agent: Path) -> None:
    (agent / "big.bin").write_bytes(os.urandom(300_000))

    with pytest.raises(BundleError, match=r"more than 0\.25 MiB packed.*'agent/big\.bin'"):
        pack_agent(agent, limit_bytes=256 * 1024)


def test_a_directory_that_is_not_there_cannot_be_packed(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"cannot pack .*gone: No such file"):
        pack_agent(tmp_path / "gone")


def test_the_result_is_read_only_and_keeps_what_may_be_run(agent: Path, tmp_path: Path) -> None:
    bundle = pack_agent(agent)

    unpack(bundle.data, bundle.digest, tmp_path / "out")

    modes = {
        name: stat.S_IMODE((tmp_path / "out" / "agent" / name).stat().st_mode)
        for name in (".", "scripts", "graph.yaml", "scripts/go.sh")
    }
    assert modes == {".": 0o555, "scripts": 0o555, "graph.yaml": 0o444, "scripts/go.sh": 0o555}


def test_what_was_unpacked_can_be_removed(agent: Path, tmp_path: Path) -> None:
    bundle = pack_agent(agent)
    unpack(bundle.data, bundle.digest, tmp_path / "out")

    remove_unpacked(tmp_path / "out")

    assert not (tmp_path / "out").exists()


def test_a_digest_that_does_not_match_leaves_nothing(agent: Path, tmp_path: Path) -> None:
    bundle = pack_agent(agent)

    with pytest.raises(BundleError, match="its hash differs"):
        unpack(bundle.data[:-1], bundle.digest, tmp_path / "cache" / "out")

    assert not (tmp_path / "cache").exists()


def test_unpacking_again_changes_nothing(agent: Path, tmp_path: Path) -> None:
    bundle = pack_agent(agent)
    unpack(bundle.data, bundle.digest, tmp_path / "out")
    before = (tmp_path / "out").stat()

    unpack(bundle.data, bundle.digest, tmp_path / "out")

    assert (tmp_path / "out").stat() == before


def test_racing_processes_leave_one_complete_directory(agent: Path, tmp_path: Path) -> None:
    bundle = pack_agent(agent)
    out = tmp_path / "cache" / "out"

    with ThreadPoolExecutor(8) as pool:
        done = [pool.submit(unpack, bundle.data, bundle.digest, out) for _ in range(24)]
        errors = [future.exception() for future in done]

    assert not any(errors)
    assert contents(out / "agent") == contents(agent)
    assert [path.name for path in out.parent.iterdir()] == ["out"]


@pytest.mark.parametrize(
    "members",
    [
        [member("/abs")],
        [member("../up")],
        [member("a/../../up")],
        [member("a//b")],
        [member("./a")],
        [member("pipe", tarfile.FIFOTYPE)],
        [member("dev", tarfile.CHRTYPE)],
        [member("hard", tarfile.LNKTYPE, "graph.yaml")],
        [member("link", tarfile.SYMTYPE, "/etc")],
        [member("link", tarfile.SYMTYPE, "..")],
        [member("a/link", tarfile.SYMTYPE, "../..")],
        [member("d", tarfile.SYMTYPE, "."), member("d/file")],
        # Each looks harmless; together the second would end two levels above the bundle.
        [member("a/b/up", tarfile.SYMTYPE, "../.."), member("out", tarfile.SYMTYPE, "a/b/up/..")],
        [member("up", tarfile.SYMTYPE, "."), member("out", tarfile.SYMTYPE, "up/up")],
        [member("twice"), member("twice")],
        [member("link", tarfile.SYMTYPE, "a"), member("link")],
    ],
)
def test_unsafe_members_are_refused_and_leave_nothing(
    members: list[tarfile.TarInfo], tmp_path: Path
) -> None:
    bundle = packed(*members)

    with pytest.raises(BundleError, match="unpack"):
        unpack(bundle.data, bundle.digest, tmp_path / "cache" / "out")

    assert list((tmp_path / "cache").iterdir()) == []


def test_a_bundle_that_unfolds_too_far_is_refused(
    agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (agent / "zeros").write_bytes(bytes(1024 * 1024))
    bundle = pack_agent(agent)
    monkeypatch.setattr(bundle_module, "UNPACKED_LIMIT_BYTES", 512 * 1024)

    with pytest.raises(BundleError, match=r"more than 0\.5 MiB unpacked, reached at 'agent/zeros'"):
        unpack(bundle.data, bundle.digest, tmp_path / "out")
    with pytest.raises(BundleError, match=r"more than 0\.5 MiB unpacked, reached at 'agent/zeros'"):
        pack_agent(agent)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
@pytest.mark.parametrize(("mib", "complaint"), [(40, "names of its files"), (1, "unpack")])
def test_a_name_takes_no_more_memory_than_a_bundle_may_have_of_them(
    kind: bytes, mib: int, complaint: str, tmp_path: Path
) -> None:
    header = tarfile.TarInfo("long")
    header.type, header.size = kind, mib * 1024 * 1024
    name = b"1048576 path=".ljust(header.size - 1, b"a") + b"\n"
    data = gzip.compress(header.tobuf() + name + member("a").tobuf() + bytes(1024), 1)
    digest = hashlib.sha256(data).hexdigest()

    tracemalloc.start()
    with pytest.raises(BundleError, match=complaint) as refused:
        unpack(data, digest, tmp_path / "out")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 10 * 1024 * 1024
    assert len(str(refused.value)) < 400


def test_more_names_than_a_bundle_may_have_are_refused(
    agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = pack_agent(agent)
    monkeypatch.setattr(bundle_module, "_HEADERS_LIMIT_BYTES", 2048)

    with pytest.raises(BundleError, match=r"names of its files take more than 0\.00195312 MiB"):
        unpack(bundle.data, bundle.digest, tmp_path / "out")
    with pytest.raises(BundleError, match="MiB for the names of its files, reached at 'agent/scri"):
        pack_agent(agent)


@pytest.mark.parametrize(
    "data", [b"", b"no archive", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03xx"]
)
def test_what_is_no_archive_is_refused(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="cannot unpack the bundle"):
        unpack(data, hashlib.sha256(data).hexdigest(), tmp_path / "out")


def test_what_is_packed_into_a_file_is_never_held_as_a_whole(tmp_path: Path) -> None:
    large = tmp_path / "in" / "large"
    large.parent.mkdir()
    large.write_bytes(os.urandom(4 * 1024 * 1024))  # cannot be compressed
    tracemalloc.start()

    with TemporaryFile() as file:
        digest = pack_into(file, [Part("x", large.parent)], 64 * 1024 * 1024)
        unpack_from(file, digest, tmp_path / "out")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        file.seek(0)
        assert file.read() == pack([Part("x", large.parent)]).data

    assert (tmp_path / "out" / "x" / "large").read_bytes() == large.read_bytes()
    assert peak < 3 * 1024 * 1024
