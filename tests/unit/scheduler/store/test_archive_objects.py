"""Objects of the archive, in a directory and in another store of fsspec."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any, ClassVar
from uuid import uuid4

import fsspec
import pytest
from fsspec import AbstractFileSystem

from sleipnir.scheduler.errors import ArchiveFailed, ObjectMissing
from sleipnir.scheduler.store.archive.objects import Objects
from tests.support import full_disk

NAME = "runs/2026/11/28/0123456789abcdef.json.gz"


@pytest.fixture(params=["directory", "memory"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    is_local = request.param == "directory"
    return Objects(str(tmp_path / "archive") if is_local else f"memory://{uuid4().hex}")


def test_an_object_is_created_once_and_never_overwritten(objects: Objects) -> None:
    assert objects.create(NAME, b"first")
    assert not objects.create(NAME, b"second")
    assert objects.read(NAME) == b"first"


def test_an_object_tells_when_it_was_written(objects: Objects) -> None:
    before_ms = int(1000 * time.time())  # noqa: TID251 - as stores of objects do
    objects.create(NAME, b"first")

    written_ms = objects.written_ms(NAME)

    assert written_ms is not None
    assert before_ms - 1000 <= written_ms <= before_ms + 60_000
    assert objects.written_ms("runs/2026/11/28/none.json.gz") is None


def test_what_is_there_is_listed_in_order(objects: Objects) -> None:
    for day in ("28", "27"):
        objects.create(f"runs/2026/11/{day}/x.json.gz", b"")

    assert objects.names("runs/2026/11") == ["27", "28"]
    assert objects.names("runs/2026/11/28") == ["x.json.gz"]
    assert objects.names("runs/2025") == []


def test_what_is_removed_is_missing_and_may_be_removed_again(objects: Objects) -> None:
    objects.create(NAME, b"first")

    objects.remove(NAME)
    objects.remove(NAME)

    with pytest.raises(ObjectMissing, match=r"\(archive\) has no runs/2026"):
        objects.read(NAME)


def test_more_than_a_run_may_take_is_not_read(objects: Objects) -> None:
    objects.create(NAME, b"12345")

    with pytest.raises(ArchiveFailed, match="has more than 4 bytes"):
        objects.read(NAME, 4)


def test_a_place_that_nobody_can_write_is_named(tmp_path: Path) -> None:
    (tmp_path / "archive").write_text("a file")

    with pytest.raises(ArchiveFailed, match=r"archive \(archive\): "):
        Objects(str(tmp_path / "archive")).create(NAME, b"")


class Silent(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A store that takes requests, and never answers."""

    protocol = "silent"
    ends: ClassVar[Event]

    def cat_file(self, *_arguments: Any, **_options: Any) -> None:
        Silent.ends.wait()

    ls = modified = pipe_file = rm_file = cat_file


@pytest.mark.parametrize(
    "request_of",
    [
        lambda objects: objects.create(NAME, b"x"),
        lambda objects: objects.read(NAME),
        lambda objects: objects.written_ms(NAME),
        lambda objects: objects.names("runs"),
        lambda objects: objects.remove(NAME),
    ],
)
def test_a_store_that_does_not_answer_holds_nobody_up(
    request_of: Callable[[Objects], object],
) -> None:
    fsspec.register_implementation("silent", Silent, clobber=True)
    Silent.ends = Event()

    with pytest.raises(ArchiveFailed, match=r"silent://archive \(archive\): it does not answer"):
        request_of(Objects("silent://archive", timeout_s=0.01))

    Silent.ends.set()


def test_a_full_disk_leaves_no_part_of_an_object(tmp_path: Path) -> None:
    objects = Objects(str(tmp_path))
    objects.create("runs/first", b"x")

    with full_disk.here(room_bytes=2), pytest.raises(ArchiveFailed):
        objects.create("runs/second", b"xyz")

    assert objects.names("runs") == ["first"]
