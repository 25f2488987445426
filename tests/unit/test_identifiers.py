"""What the pages on the code call by name is there, in the files that they name beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pytest

from sleipnir.scheduler.cli.app import VERBS
from tests.support.pages import ROOT, TEXTS

PAGES = ("architecture.md", "walkthrough.md", "extending.md")
SOURCES = {
    str(file.relative_to(ROOT)): file.read_text(encoding="utf-8")
    for folder in ("graphs", "scheduler", "worker", "sleipnir", "tests")
    for file in (ROOT / folder).rglob("*")
    if file.suffix in (".py", ".lua", ".yaml", ".css", ".js", ".html") and not file.is_symlink()
} | {"pyproject.toml": (ROOT / "pyproject.toml").read_text(encoding="utf-8")}

BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
# A paragraph, an entry of a list or a row of a table.
NEXT_UNIT = re.compile(r"\n\n|\n(?=\||- |\d+\. )")
CODE = re.compile(r"`([^`]+)`")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\(.*\))?")
FILE = r"(?:[\w-]+/)*(?:[\w-]+|`?__init__)\.(?:py|lua|toml|css|js|html)"
PATH = re.compile(rf"(?<![\w/.-])(?:{FILE}|(?:[\w-]+/)+)(?![\w-])")
# `name` (file), `name` of file, `name` in file.
PAIR = re.compile(rf"`([^`]+)` (?:\(|of |in )({FILE})")

pages = pytest.mark.parametrize("page", PAGES)


def units(page: str) -> Iterator[str]:
    for unit in NEXT_UNIT.split(BLOCK.sub("", TEXTS[page])):
        yield " ".join(unit.split())


def files_of(path: str) -> list[str]:
    """The sources that a path means, of which the beginning may be left out."""
    path = path.strip("/")
    return [
        file
        for file in SOURCES
        if f"/{file}".endswith(f"/{path}") or f"/{path}/" in f"/{file.rpartition('/')[0]}/"
    ]


def paths_in(unit: str) -> list[str]:
    return PATH.findall(unit.replace("`", ""))


def identifiers_in(unit: str) -> Iterator[str]:
    for code in CODE.findall(unit):
        if IDENTIFIER.fullmatch(code) and not PATH.fullmatch(code):
            yield code.partition("(")[0]


def has_all(file: str, identifier: str) -> bool:
    return all(re.search(rf"\b{part}\b", SOURCES[file]) for part in identifier.split("."))


def is_there(identifier: str, files: Sequence[str]) -> bool:
    """Whether one of the files has all parts of a name, or it names a verb or a folder there."""
    is_folder = any(f"/{identifier}/" in f"/{file}" for file in files)
    return is_folder or identifier in VERBS or any(has_all(file, identifier) for file in files)


@pages
def test_files_that_are_named_exist(page: str) -> None:
    named = {path for unit in units(page) for path in paths_in(unit)}

    assert {path for path in named if not (files_of(path) or (ROOT / path).exists())} == set()


@pages
def test_identifiers_exist_in_the_files_named_with_them(page: str) -> None:
    missing = []
    for unit in units(page):
        named = [file for path in paths_in(unit) for file in files_of(path)]
        missing += [
            f"`{identifier}`: {unit[:80]}…"
            for identifier in identifiers_in(unit)
            if not is_there(identifier, named or list(SOURCES))
        ]

    assert not missing, "\n".join(missing)


@pages
def test_an_identifier_is_in_the_file_that_follows_it(page: str) -> None:
    pairs = {pair for unit in units(page) for pair in PAIR.findall(unit)}

    wrong = [
        f"`{code}` is not in {file}"
        for code, file in pairs
        if IDENTIFIER.fullmatch(code) and not is_there(code.partition("(")[0], files_of(file))
    ]

    assert not wrong, "\n".join(wrong)
