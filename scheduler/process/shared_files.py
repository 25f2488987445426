"""Files that processes of several machines share, in a directory or anywhere fsspec can write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.errors import SleipnirError

with lazy_imports():
    import fsspec


class SharedFiles:
    """What keeps files below the directory that a setting names.

    Args:
        url: a path, or a URL of fsspec.
    """

    _SETTING: ClassVar[str]
    _FAILED: ClassVar[type[SleipnirError]]  # what all errors become

    def __init__(self, url: str) -> None:
        self.url = url if "://" in url else str(Path(url).expanduser().absolute())

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @property
    def _files(self) -> Any:
        return self._place[0]

    @property
    def _root(self) -> str:
        return self._place[1]

    @cached_property
    def _place(self) -> tuple[Any, str]:
        # Other processes write there too: a cached listing would hide their files.
        files, root = fsspec.core.url_to_fs(self.url, use_listings_cache=False)
        return files, root.rstrip("/")

    @contextmanager
    def _translating_errors(self) -> Iterator[None]:
        try:
            yield
        except (self._FAILED, MemoryError):
            raise
        except Exception as error:  # every fsspec backend raises errors of its own
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise self._FAILED(f"{self.url} ({self._SETTING}): {why}") from error
