"""Records are dataclasses whose methods are made when they are needed: nobody sees a difference."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import pytest
from pydantic import TypeAdapter, ValidationError

from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list, compare=False)
    secret: str = field(default="hidden", repr=False, kw_only=True)
    origin: ClassVar[str] = "here"


@dataclass(frozen=True, slots=True)
class Place(Point):
    """With a field more, and one that is worked out."""

    name: str = ""
    label: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", f"{self.name}@{self.x}")


@dataclass
class Counter:
    """One that changes."""

    count: int = 0
    seen: dict[str, int] = field(init=False, default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Wide:
    """Without slots: what is worked out once is kept."""

    size: int

    @cached_property
    def doubled(self) -> int:
        return 2 * self.size


def test_records_are_made_compared_hashed_and_shown_as_dataclasses_are() -> None:
    assert Point(1) == Point(x=1, y=2, tags=["not compared"])
    assert Point(1) != Point(1, secret="other") != Place(1)
    assert len({Point(1), Point(1), Point(2)}) == 2
    assert repr(Point(1)) == "Point(x=1, y=2, tags=[])"
    assert repr(Place(3, name="home")) == "Place(x=3, y=2, tags=[], name='home', label='home@3')"
    assert replace(Place(3, name="home"), x=4).label == "home@4"
    assert dataclasses.asdict(Counter(2)) == {"count": 2, "seen": {}}
    match Point(5, 6):
        case Point(x, y):
            assert (x, y, Point.origin) == (5, 6, "here")
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter())


def test_each_record_has_values_of_its_own() -> None:
    one, other = Counter(), Counter()
    one.count += 1
    one.seen["a"] = 1

    assert (other.count, other.seen) == (0, {})
    assert Point(1).tags is not Point(1).tags


@pytest.mark.parametrize("record", [Point(1), Place(1, name="home"), Wide(size=1)], ids=repr)
def test_nobody_changes_a_frozen_record(record: Any) -> None:
    name = fields(record)[0].name

    with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(record, name, 2)
    with pytest.raises(FrozenInstanceError, match="cannot delete"):
        delattr(record, name)
    assert Wide(size=2).doubled == 4


@pytest.mark.parametrize(
    "twin", [copy.copy, copy.deepcopy, lambda record: pickle.loads(pickle.dumps(record))]
)
@pytest.mark.parametrize("record", [Place(1, name="home"), Wide(size=1), Counter(3)], ids=repr)
def test_records_are_copied_and_pickled(record: Any, twin: Callable[[Any], Any]) -> None:
    assert twin(record) == record
    assert repr(twin(record)) == repr(record)


@pytest.mark.parametrize(
    ("arguments", "named", "says"),
    [
        ((), {}, "missing 1 required positional argument: 'x'"),
        ((1,), {"z": 1}, "unexpected keyword argument 'z'"),
        ((1, 2, [], "positional"), {}, "positional arguments"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments: Any, named: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        Point(*arguments, **named)


def test_the_signature_is_there_before_the_first_record() -> None:
    @dataclass(frozen=True)
    class Fresh:
        x: int
        y: int = 2

    assert str(inspect.signature(Fresh)) == "(x: 'int', y: 'int' = 2)"


def test_pydantic_checks_what_a_record_is_made_of() -> None:
    adapter = TypeAdapter(Place)

    assert adapter.validate_python({"x": "7", "name": "home"}) == Place(7, name="home")
    with pytest.raises(ValidationError, match="valid integer"):
        adapter.validate_python({"x": "seven"})


def test_threads_may_make_the_first_records_together() -> None:
    for _ in range(50):

        @dataclass(frozen=True, slots=True)
        class Fresh:
            x: int

        with ThreadPoolExecutor(4) as pool:
            assert {record.x for record in pool.map(Fresh, range(8))} == set(range(8))
