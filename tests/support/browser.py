"""Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest

from tests.support.site import KEY, ServedSite

_WHOLE = ("chromium", "chromium-browser", "google-chrome")
# The same engine without the windows, menus and services around it, at half the CPU.
_LEAN = "chromium-headless-shell"
# Generous, as test machines are busy; a wait that ends early costs nothing.
PATIENCE_MS = 60_000


def find_chromium(*, whole: bool = False) -> str:
    """Return the program; without one the test is skipped, or fails on CI.

    Args:
        whole: a browser as people have it, whose pages have scroll bars.
    """
    names = _WHOLE if whole else (_LEAN, *_WHOLE)
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        _give_up("Chromium is missing (apt-get install chromium)")
    return found


def _give_up(why: str) -> NoReturn:
    give_up = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
    give_up(f"Browsers were not tested: {why}")


@contextmanager
def chromium(*, whole: bool = False) -> Iterator[Any]:
    """Yield a browser, whose contexts share nothing; `whole` as for `find_chromium`."""
    program = find_chromium(whole=whole)
    try:
        playwright = importlib.import_module("playwright.sync_api")
    except ImportError:
        _give_up("playwright is missing (make setup)")
    with playwright.sync_playwright() as started:
        # Tests may run as root, and containers have little shared memory.
        browser = started.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
            timeout=PATIENCE_MS,
        )
        try:
            yield browser
        finally:
            browser.close()


class Complaints:
    """What a context's pages must not produce: errors, dialogs, requests to other hosts."""

    def __init__(self, context: Any, origin: str) -> None:
        self.all: list[str] = []
        self._origin = origin
        context.on("console", self._hear)
        context.on("weberror", lambda error: self.all.append(f"error: {error.error}"))
        context.on("dialog", self._refuse)
        context.on("request", self._see)

    def _hear(self, message: Any) -> None:
        if message.type == "error":
            self.all.append(f"console: {message.text}")

    def _refuse(self, dialog: Any) -> None:
        self.all.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _see(self, request: Any) -> None:
        if not request.url.startswith((self._origin, "data:")):
            self.all.append(f"request: {request.url}")


class Person:
    """A person who has opened the link."""

    def __init__(self, browser: Any, site: ServedSite, **options: Any) -> None:
        self.origin = f"http://127.0.0.1:{site.port}{site.site.prefix}"
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(PATIENCE_MS)
        self.complaints = Complaints(self.context, self.origin)
        self.page = self.open(f"/?key={KEY}")

    def open(self, path: str) -> Any:
        """Open another tab."""
        page = self.context.new_page()
        page.goto(f"{self.origin}{path}")
        return page
