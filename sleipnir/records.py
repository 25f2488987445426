"""Dataclasses that cost next to nothing to declare.

    from sleipnir.records import dataclass

Replaces the standard library's decorator, which writes and compiles up to eight functions per class
when it is declared: 0.3 ms and more, for a hundred classes a third of a worker's start. Here
classes share all functions except `__init__`, which is compiled when it is first looked up. To type
checkers, pydantic, `fields`, `replace`, `asdict` and `match` they are ordinary dataclasses.

A hop makes 11 records. `msgspec.Struct` would save about 1 us each, 2 % of a hop, and is no
dataclass to any of these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from operator import attrgetter
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, NoReturn


def _declare(cls: type | None = None, /, **options: bool) -> Any:
    """Declare a dataclass; takes those options of `dataclasses.dataclass` that `_made` has."""
    return _made(cls, **options) if cls is not None else lambda cls: _made(cls, **options)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: TID251 # the type that checkers see
else:
    dataclass = _declare


def _made(
    cls: Any,
    *,
    frozen: bool = False,
    eq: bool = True,
    kw_only: bool = False,
    slots: bool = False,
    weakref_slot: bool = False,
) -> Any:
    # otherwise dataclasses generate one from the signature
    cls.__doc__ = cls.__doc__ or cls.__name__
    cls = dataclasses.dataclass(  # noqa: TID251 # compiles nothing if no methods are requested
        init=False, repr=False, eq=False, kw_only=kw_only, slots=slots, weakref_slot=weakref_slot
    )(cls)
    shared: dict[str, Any] = {"__repr__": _repr}
    if eq:
        names = [field.name for field in fields(cls) if field.compare]
        cls.__compared__ = attrgetter(*names) if names else _nothing
        shared |= {"__eq__": _equal, "__hash__": _hash if frozen else None}
    if frozen:
        shared |= _FROZEN
    own = vars(cls)
    for name, method in shared.items():
        # A class with `__eq__` and no `__hash__` of its own has None there.
        if own.get(name) is None:
            setattr(cls, name, method)
    if "__init__" not in own:
        cls.__init__ = _Init(cls, frozen)
    return cls


def _nothing(_: object) -> tuple[()]:
    return ()


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _equal(self: Any, other: Any) -> Any:
    if type(self) is not type(other):
        return NotImplemented
    compared = self.__compared__
    return compared(self) == compared(other)


def _hash(self: Any) -> int:
    return hash(self.__compared__(self))


def _refuse_set(_: object, name: str, __: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(_: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _restore(self: Any, state: Any) -> None:
    """Restore the state from `copy` or `pickle`: the dictionary, the slots, or a pair of them."""
    for part in state if isinstance(state, tuple) else (state,):
        for name, value in (part or {}).items():
            object.__setattr__(self, name, value)


# For frozen records.
_FROZEN = {
    "__setattr__": _refuse_set,
    "__delattr__": _refuse_delete,
    "__setstate__": _restore,
}


class _Init:
    """Takes the place of a class's `__init__` until it is looked up."""

    def __init__(self, cls: type, frozen: bool) -> None:
        self._cls = cls
        self._frozen = frozen

    def __get__(self, record: object, owner: type) -> Any:
        # Two threads may get here at once; either's function will do.
        made = _make_init(self._cls, self._frozen)
        self._cls.__init__ = made  # type: ignore[misc] # replaces this descriptor on purpose
        return made.__get__(record, owner)


def _make_init(cls: Any, frozen: bool) -> Callable[..., None]:
    parameters = ["self"]
    body = []
    names: dict[str, Any] = {"__MISSING": MISSING, "__set": object.__setattr__}
    # Keyword-only fields must come last.
    for field in sorted(fields(cls), key=lambda field: bool(field.kw_only)):
        name = field.name
        parameter, value = _sources(field, names)
        if field.init:
            if field.kw_only and "*" not in parameters:
                parameters.append("*")
            parameters.append(parameter)
        if value:
            body.append(
                _assignment(cls, name, value, names) if frozen else f"self.{name} = {value}"
            )
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body or ["pass"]), names)
    made: Callable[..., None] = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__module__ = cls.__module__
    made.__annotations__ = {field.name: field.type for field in fields(cls) if field.init}
    return made


def _sources(field: Field[Any], names: dict[str, Any]) -> tuple[str, str]:
    """Return the source of a field's parameter, and of its value; "" if it has none."""
    name, make, default = field.name, f"__make_{field.name}", f"__default_{field.name}"
    if field.default_factory is not MISSING:
        names[make] = field.default_factory
        value = f"{make}() if {name} is __MISSING else {name}" if field.init else f"{make}()"
        return f"{name}=__MISSING", value
    if field.default is not MISSING:
        names[default] = field.default
        return f"{name}={default}", name if field.init else default
    return name, name if field.init else ""


def _assignment(cls: type, name: str, value: str, names: dict[str, Any]) -> str:
    """Return the source that sets a field of a frozen record."""
    slot = getattr(cls, name, None)
    if not isinstance(slot, MemberDescriptorType):
        return f"__set(self, {name!r}, {value})"
    # Takes a third of the time of `object.__setattr__`.
    names[f"__set_{name}"] = slot.__set__
    return f"__set_{name}(self, {value})"
