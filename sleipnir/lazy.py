"""Imports that wait until the module is first used, for what most calls do without.

    with lazy_imports():
        import graphlay
        from sleipnir.scheduler.cli import run_page

Modules only, not names out of them. To type checkers and import contracts these are ordinary
imports. Python 3.15 has `lazy import` for it. `made_when_used` is for objects
that would bring such modules with them.
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

# `builtins` is one for all threads.
_lock = threading.RLock()


class _LazyModule(ModuleType):
    """Stands for a module in the namespace that imports it, until it is used."""

    def __init__(self, name: str, importer: dict[str, Any]) -> None:
        super().__init__(name)
        self._importer = importer

    def __getattr__(self, attribute: str) -> Any:
        return getattr(load(self), attribute)


class lazy_imports:
    """A `with` block in a module's head whose imports are carried out when first used."""

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
    """Import a lazily imported module now; one that is loaded stays as it is."""
    if not isinstance(module, _LazyModule):
        return module
    loaded = import_module(module.__name__)
    # From here on its importer uses it without us.
    importer = module._importer
    for name in [name for name, value in list(importer.items()) if value is module]:
        importer[name] = loaded
    return loaded


def _module(name: str, importer: dict[str, Any]) -> ModuleType:
    return sys.modules.get(name) or _LazyModule(name, importer)


class _MadeWhenUsed:
    """Stands for an object until one of its attributes is looked up."""

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


def made_when_used(make: Callable[[], T]) -> T:
    """What `make` returns, made once, by the thread that first uses it.

    Where making it fails, so does that use; the next one tries again. For attributes and methods:
    it is no instance of its class.
    """
    return cast(T, _MadeWhenUsed(make))


def is_made(thing: object) -> bool:
    """Whether what is `made_when_used` has been used; anything else is there from the start."""
    return not isinstance(thing, _MadeWhenUsed) or thing.is_made
