"""Imports that wait until the module is first used, for what most calls do not need.

    with lazy_imports():
        import graphlay
        from sleipnir.scheduler.views.text import run_page

Modules only, not names from them. Type checkers and import contracts see ordinary imports. Python
3.15 has `lazy import` for this. `lazy_object` is for objects that would import such modules.
"""

from __future__ import annotations

import builtins
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any, TypeVar, cast

T = TypeVar("T")

# All threads share `builtins`.
_lock = threading.RLock()


class _LazyModule(ModuleType):
    """Takes a module's place in the importing namespace until it is used."""

    def __init__(self, name: str, importer: dict[str, Any]) -> None:
        super().__init__(name)
        self._importer = importer

    def __getattr__(self, attribute: str) -> Any:
        return getattr(load(self), attribute)


class lazy_imports:
    """A `with` block at the top of a module whose imports are carried out on first use."""

    def __enter__(self) -> None:
        importer = sys._getframe(1).f_globals
        _lock.acquire()
        self._original = original = builtins.__import__

        def lazy_import(
            name: str,
            globals: Mapping[str, object] | None = None,
            locals: Mapping[str, object] | None = None,
            fromlist: Sequence[str] | None = (),
            level: int = 0,
        ) -> Any:
            if globals is not importer:  # another thread
                return original(name, globals, locals, fromlist, level)
            if fromlist:
                parts = {part: _module(f"{name}.{part}", importer) for part in fromlist}
                return SimpleNamespace(**parts)
            if "." in name:
                raise ImportError(f"write `from {name.rpartition('.')[0]} import …` to be lazy")
            return _module(name, importer)

        builtins.__import__ = lazy_import

    def __exit__(self, *_: object) -> None:
        builtins.__import__ = self._original
        _lock.release()


def load(module: ModuleType) -> ModuleType:
    """Import a lazily imported module now; one that is loaded already is returned."""
    if not isinstance(module, _LazyModule):
        return module
    loaded = import_module(module.__name__)
    # Replace the placeholder, so that the importer uses the module directly from now on.
    importer = module._importer
    for name in [name for name, value in list(importer.items()) if value is module]:
        importer[name] = loaded
    return loaded


def _module(name: str, importer: dict[str, Any]) -> ModuleType:
    found = sys.modules.get(name)
    # One that another thread is importing is not whole yet; whoever uses it waits for it.
    if found is None or getattr(found.__spec__, "_initializing", False):
        return _LazyModule(name, importer)
    return found


class _LazyObject:
    """Takes an object's place until one of its attributes is looked up."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self.is_made = False

    def __getattr__(self, attribute: str) -> Any:
        if not self.is_made:
            with self._lock:
                if not self.is_made:
                    self._thing = self._make()
                    self.is_made = True
        return getattr(self._thing, attribute)


def lazy_object(make: Callable[[], T]) -> T:
    """Return a placeholder for what `make` returns; the first thread to use it calls `make`.

    If it raises, so does that use, and the next one tries again. Supports attributes and methods
    only: it is not an instance of the class.
    """
    return cast(T, _LazyObject(make))


def is_made(thing: object) -> bool:
    """Return whether a `lazy_object` object has been used; true for any other object."""
    return not isinstance(thing, _LazyObject) or thing.is_made
