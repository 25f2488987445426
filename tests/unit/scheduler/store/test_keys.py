"""The map of keys in the docstring of keys.py has every key that its functions return."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from inspect import get_annotations, getmembers, isfunction

import pytest

from sleipnir.scheduler.store import keys
from tests.support.pages import ROOT

MAP = keys.__doc__ or ""
ROWS = {
    row.rstrip(".,;:")
    for row in re.findall(r"(?:\{pNN\}|\{limits\}|sleipnir)(?:<[^>]+>|[^\s`<])*", MAP)
    if "<kind>" not in row and "…" not in row
}
KINDS = set(re.findall(r"^    (\w+) +(?:hash|list|zset|set|stream|string) ", MAP, re.MULTILINE))
# Arguments that have a form of their own.
ARGUMENTS = {
    **{"partition": "{pNN}", "prefix": "abc", "run_id": "abc", "queue": keys.QUEUE},
    "kind": "spend",
}


def functions() -> Iterator[tuple[str, Callable[..., str | list[str]]]]:
    for name, function in getmembers(keys, isfunction):
        if name.endswith(("_key", "_keys", "_queue", "_channel")) and name != "run_key":
            yield name, function


def is_listed(key: str) -> bool:
    plain = re.sub(r"^\{p\d\d\}", "{pNN}", key.encode("unicode_escape").decode())
    patterns = (re.sub(r"<[^>]+>", "[^:]+", re.escape(row)) for row in ROWS)
    return any(re.fullmatch(pattern, plain) for pattern in patterns)


@pytest.mark.parametrize(("name", "function"), list(functions()))
def test_a_key_that_a_function_returns_is_in_the_map(
    name: str, function: Callable[..., str | list[str]]
) -> None:
    parameters = get_annotations(function, eval_str=True)
    del parameters["return"]

    made = function(
        *(1 if kind is int else ARGUMENTS.get(each, each) for each, kind in parameters.items())
    )

    for key in [made] if isinstance(made, str) else made:
        assert is_listed(key), f"{name} returns {key}"


def test_a_key_that_is_a_constant_is_in_the_map() -> None:
    constants = [value for name, value in vars(keys).items() if name.isupper()]

    named = [value for value in constants if str(value).startswith("sleipnir")]

    assert len(named) > 5
    assert [key for key in named if not is_listed(key)] == []


def test_every_part_of_a_run_is_in_the_map() -> None:
    sources = [
        file.read_text(encoding="utf-8")
        for package in ("scheduler", "worker")
        for file in (ROOT / package).rglob("*.py")
    ]

    used = {kind for text in sources for kind in re.findall(r'\brun_key\(\s*"(\w+)"', text)}

    assert len(used) > 15
    assert used - KINDS == set()


def test_a_key_of_the_map_is_made_somewhere() -> None:
    texts = [
        file.read_text(encoding="utf-8")
        for file in (ROOT / "scheduler/store").rglob("*.*")
        if file.suffix in (".py", ".lua")
    ]
    code = "\n".join(texts).replace(MAP.replace("\\", r"\\"), "")

    words = {row.split(":")[1] for row in ROWS if ":" in row} | KINDS

    assert {word for word in words if not re.search(rf"[:'\"]{word}\b", code)} == set()
