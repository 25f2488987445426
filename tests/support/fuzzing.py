"""Texts and values that nobody would write, for code that takes input from outside.

A target is a function of one example. A short run always uses the same examples, so that a test
does not fail today that passed yesterday; a long one (`make chaos`) uses others each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

T = TypeVar("T")

_LONG = 10_000

# Parameters of targets.
EXAMPLES = pytest.mark.parametrize(
    "examples",
    [
        pytest.param(60, id="short"),
        pytest.param(_LONG, id="long", marks=[pytest.mark.chaos, pytest.mark.timeout(3_600)]),
    ],
)


def fuzz(examples: int, strategy: SearchStrategy[T], check: Callable[[T], object]) -> None:
    """Call `check` with that many examples; report the smallest one that fails."""
    is_short = examples < _LONG

    @settings(
        max_examples=examples,
        derandomize=is_short,
        database=None,
        deadline=None,
        # In a short run, shrinking would only make a failure slow.
        phases=(Phase.explicit, Phase.generate) if is_short else tuple(Phase),
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def target(example: T) -> None:
        check(example)

    target()


def assert_one_line(message: str) -> None:
    """Check that a message is readable where one line is expected."""
    assert message.strip()
    assert "\n" not in message, message
    assert "Traceback" not in message


# ---- inputs

_ODD_TEXTS = [
    "",
    "\x00",
    "\x1b[31m\x9b",
    "\ud800",
    "\udfff\ud800",
    "\u202e\u2066",
    "\ufeff",
    "\u2028",
    "a\r\nb",
    "{{a}}",
    "{{",
    "}}{{x.y[0]}}",
    "None",
    "NaN",
    "__proto__",
    "constructor",
    "-0",
    "1e999",
    "9" * 5_000,
    "x" * 70_000,
    "[" * 2_000,
    "$(touch /tmp/x)",
    "`id`",
    "%s%n",
    "../../etc/passwd",
]
_ODD_NUMBERS = [
    0,
    -1,
    2**31,
    2**53 + 1,
    2**63,
    -(2**63) - 1,
    2**64,
    10**400,
    -(10**400),
    0.1,
    -0.0,
    1e308,
    5e-324,
    float("inf"),
    float("-inf"),
    float("nan"),
]


def texts() -> SearchStrategy[str]:
    """Generate any text, lone surrogates and control characters included."""
    anything = st.text(st.characters(exclude_categories=()), max_size=30)
    return st.sampled_from(_ODD_TEXTS) | anything


def scalars() -> SearchStrategy[Any]:
    """Generate anything but lists and objects, including numbers that JSON cannot hold."""
    numbers = st.sampled_from(_ODD_NUMBERS) | st.integers() | st.floats()
    return st.none() | st.booleans() | numbers | texts()


def values() -> SearchStrategy[Any]:
    """Generate anything that `json.loads` may return, and more."""
    deep = st.sampled_from([_nested(40), _nested(200)])
    return (
        st.recursive(
            scalars(),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts(), inner, max_size=4),
            max_leaves=8,
        )
        | deep
    )


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def rarely(plausible: Any) -> SearchStrategy[Any]:
    """Generate a plausible value mostly, otherwise any value."""
    expected = plausible if isinstance(plausible, SearchStrategy) else st.just(plausible)
    return st.integers(0, 3).flatmap(lambda die: expected if die else values())


def objects(**fields: Any) -> SearchStrategy[dict[str, Any]]:
    """Generate an object with these fields, each as expected, odd or missing, and unknown ones."""
    optional = {name: rarely(field) for name, field in fields.items()}
    unknown = st.just({}) | st.dictionaries(texts(), values(), max_size=1)
    known = st.fixed_dictionaries({}, optional=optional)
    return st.tuples(known, unknown).map(lambda pair: {**pair[1], **pair[0]})


def mutated(document: Any) -> SearchStrategy[Any]:
    """Generate the document with up to three of its parts removed or replaced."""
    paths = st.sampled_from([path for path, _ in _parts(document)])
    changes = st.lists(st.tuples(paths, st.just(_GONE) | values()), max_size=3)
    return changes.map(lambda some: _changed(document, some))


def respelled(document: Any) -> SearchStrategy[Any]:
    """Generate the document with up to three of its texts replaced."""
    paths = st.sampled_from([path for path, part in _parts(document) if isinstance(part, str)])
    changes = st.lists(st.tuples(paths, texts()), max_size=3)
    return changes.map(lambda some: _changed(document, some))


_GONE = object()
_Path = tuple[str | int, ...]


def _parts(value: Any, path: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    """Yield all parts of a JSON document, itself first, each with its path."""
    yield path, value
    parts: Any = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    for key, part in parts:
        yield from _parts(part, (*path, key))


def _changed(document: Any, changes: Sequence[tuple[_Path, Any]]) -> Any:
    for path, value in changes:
        document = _with(document, path, value)
    return document


def _with(document: Any, path: _Path, value: Any) -> Any:
    """Return a copy with that part changed; unchanged if an earlier change removed the part."""
    if not path:
        return None if value is _GONE else value
    key, *rest = path
    if isinstance(document, dict) and key in document:
        changed: Any = dict(document)
    elif isinstance(document, list) and isinstance(key, int) and key < len(document):
        changed = list(document)
    else:
        return document
    if rest or value is not _GONE:
        changed[key] = _with(changed[key], tuple(rest), value)
    else:
        del changed[key]
    return changed
