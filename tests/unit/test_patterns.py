"""Regular expressions: a text from outside cannot make one of ours take more than linear time.

Python's engine holds the interpreter while it searches: whoever can make it slow stops a worker.
"""

from __future__ import annotations

import ast
import importlib
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType

import pytest

from sleipnir.scheduler.config.masking import mask
from sleipnir.worker.conversation.structured_output import clean
from sleipnir.worker.llm.provider.failures import _unwrapped
from sleipnir.worker.tools.sanitize import without_escapes
from tests.support.pumping import adversarial

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for package in ("graphs", "scheduler", "worker")
    for path in (ROOT / package).rglob("*.py")
    if "import re\n" in path.read_text()
)
# Programs of their own, ended at their node's limit: they may take what lies beside them.
PROGRAMS = ("graphs/agents", "graphs/functions", "scheduler/cli/templates", "worker/tools/wrappers")
# What is used of patterns, and what is tried for it.
METHODS = {word: word for word in ("match", "fullmatch", "search", "finditer")}
METHODS |= dict.fromkeys(("sub", "split", "findall"), "finditer")
LARGE = 8 * 2**20
LARGE_LIMIT_S = 30.0
MIDDLE = 2**17
MIDDLE_LIMIT_S = 1.0  # fifty times what a linear search takes; a quadratic one takes longer


# Python before 3.11.5 matches such groups wrongly.
POSSESSIVE_GROUP = re.compile(r"\)[*+?]\+|\(\?>")


class TooSlow(Exception):
    """More processor time than any linear search needs, on any machine."""


@contextmanager
def limited(limit_s: float) -> Iterator[None]:
    """A bound of processor time, which a loaded machine does not use up."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def is_program(path: Path) -> bool:
    return path.relative_to(ROOT).as_posix().startswith(PROGRAMS)


OURS = [path for path in SOURCES if not is_program(path)]


@pytest.mark.parametrize("path", OURS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_pattern_takes_linear_time(path: Path) -> None:
    module = imported(path)
    source = path.read_text()

    for pattern, method in applied_at_once(source):
        assert_linear(pattern, method)
    for name, value in vars(module).items():
        used = set(re.findall(rf"\b{name}\.(\w+)\(", source)) & METHODS.keys()
        for pattern in patterns_in(value):
            for method in {METHODS[word] for word in used or {"fullmatch"}}:
                assert_linear(pattern, method)


def imported(path: Path) -> ModuleType:
    return importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def patterns_in(value: object) -> Iterator[re.Pattern[str]]:
    """A pattern, or those in a table of them."""
    match value:
        case re.Pattern():
            yield value
        case dict():
            for part in value.values():
                yield from patterns_in(part)
        case tuple() | list():
            for part in value:
                yield from patterns_in(part)


def applied_at_once(source: str) -> Iterator[tuple[re.Pattern[str], str]]:
    """Patterns that are written where they are applied, and how they are."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=method),
                args=[ast.Constant(value=str(pattern)), *_],
            ) if method in METHODS:
                yield re.compile(pattern), METHODS[method]


def assert_linear(pattern: re.Pattern[str], method: str) -> None:
    for text in adversarial(pattern, MIDDLE):
        try:
            with limited(MIDDLE_LIMIT_S):
                found = getattr(pattern, method)(text)
                if method == "finditer":
                    for _ in found:
                        pass
        except TooSlow:
            pytest.fail(f"{pattern.pattern} ({method}) is slow on {text[:30]!r}…")


@pytest.mark.parametrize(
    ("function", "unit"),
    [
        *[(mask, unit) for unit in ("key-", "ghp_" + "a" * 20 + "-key-", "-")],
        *[(without_escapes, unit) for unit in ("\x1b]", "\x1b[", "\x1bP" + "a" * 5000)],
        *[(clean, unit) for unit in ("<think>", "<think></think> ", "```", "<think></think")],
        *[(_unwrapped, unit) for unit in ("AError: ",)],
    ],
    ids=lambda part: getattr(part, "__name__", None) or repr(part[:20]),
)
def test_large_texts_of_programs_and_models_take_linear_time(
    function: Callable[[str], str], unit: str
) -> None:
    text = unit * (LARGE // len(unit))

    with limited(LARGE_LIMIT_S):
        function(text)


def test_no_pattern_has_a_possessive_group() -> None:
    assert POSSESSIVE_GROUP.search("(a|b)*+c")

    found = [path.name for path in SOURCES if POSSESSIVE_GROUP.search(path.read_text())]

    assert found == []
