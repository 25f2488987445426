"""Texts and values that nobody would write, for what takes in the outside world.

A target is a function of one example. Short, its examples are always the same, so that nothing
fails today that passed yesterday; long (`make chaos`), they are others each time.
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

# What the targets take as `examples`.
EXAMPLES = pytest.mark.parametrize(
    "examples",
    [
        pytest.param(60, id="short"),
        pytest.param(_LONG, id="long", marks=[pytest.mark.chaos, pytest.mark.timeout(3_600)]),
    ],
)


def fuzz(examples: int, strategy: SearchStrategy[T], check: Callable[[T], object]) -> None:
    """Call `check` with that many examples; the smallest that fails is shown."""
    is_short = examples < _LONG

    @settings(
        max_examples=examples,
        derandomize=is_short,
        database=None,
        deadline=None,
        # Short, shrinking would only make a failure slow.
        phases=(Phase.explicit, Phase.generate) if is_short else tuple(Phase),
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def target(example: T) -> None:
        check(example)

    target()


def assert_one_line(message: str) -> None:
    """A person can read it where one line is expected."""
    assert message.strip()
    assert "\n" not in message, message
    assert "Traceback" not in message


# ---- what is put in

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
    """Any text, lone surrogates and control characters included."""
    anything = st.text(st.characters(exclude_categories=()), max_size=30)
    return st.sampled_from(_ODD_TEXTS) | anything


def scalars() -> SearchStrategy[Any]:
    """Anything but lists and objects; also numbers that JSON cannot hold."""
    numbers = st.sampled_from(_ODD_NUMBERS) | st.integers() | st.floats()
    return st.none() | st.booleans() | numbers | texts()


def values() -> SearchStrategy[Any]:
    """Anything `json.loads` may make of a text, and more."""
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
    """What is expected most of the time, and anything else now and then."""
    expected = plausible if isinstance(plausible, SearchStrategy) else st.just(plausible)
    return st.integers(0, 3).flatmap(lambda die: expected if die else values())


def objects(**fields: Any) -> SearchStrategy[dict[str, Any]]:
    """An object of these fields, each as expected, odd or missing; and fields nobody knows."""
    optional = {name: rarely(field) for name, field in fields.items()}
    unknown = st.just({}) | st.dictionaries(texts(), values(), max_size=1)
    known = st.fixed_dictionaries({}, optional=optional)
    return st.tuples(known, unknown).map(lambda pair: {**pair[1], **pair[0]})


def mutated(document: Any) -> SearchStrategy[Any]:
    """The JSON document with up to three of its parts gone, or something else in their place."""
    paths = st.sampled_from([path for path, _ in _parts(document)])
    changes = st.lists(st.tuples(paths, st.just(_GONE) | values()), max_size=3)
    return changes.map(lambda some: _changed(document, some))


def respelled(document: Any) -> SearchStrategy[Any]:
    """The JSON document in its shape, with other texts in up to three places."""
    paths = st.sampled_from([path for path, part in _parts(document) if isinstance(part, str)])
    changes = st.lists(st.tuples(paths, texts()), max_size=3)
    return changes.map(lambda some: _changed(document, some))


_GONE = object()
_Path = tuple[str | int, ...]


def _parts(value: Any, path: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    """All parts of a JSON document, itself first, each with its path."""
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
    """A copy with that part changed; as it is, if an earlier change took the part away."""
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
