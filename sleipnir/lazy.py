"""Imports that wait until the module is first used, for what most calls do without.

    with lazy_imports():
        import graphlay
        from sleipnir.scheduler.cli import run_page

Modules only, not names out of them. To type checkers and import contracts these are ordinary
imports. Python 3.15 has `lazy import` for it.
"""

from __future__ import annotations

import builtins
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

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
