"""Whether finished runs could be archived from here."""

from __future__ import annotations

from pathlib import Path

from sleipnir.scheduler.doctor.diagnosis import archive_check
from tests.support.settings import settings_of


def test_an_object_is_written_read_and_removed(tmp_path: Path) -> None:
    (found,) = archive_check(settings_of({"archive": str(tmp_path / "archive")}))

    assert (found.state, found.text) == ("ok", str(tmp_path / "archive"))
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_what_is_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "archive").write_text("a file")

    (found,) = archive_check(settings_of({"archive": str(tmp_path / "archive")}))

    assert found.state == "error"
    assert str(tmp_path / "archive") in found.text


def test_a_key_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    settings = settings_of({"archive": str(tmp_path), "archive_key_file": str(tmp_path / "key")})

    (found,) = archive_check(settings)

    assert found.state == "error"
    assert found.text.startswith("archive_key_file: cannot read")


def test_without_an_archive_nothing_is_said() -> None:
    assert [*archive_check(settings_of({}))] == []
