"""What a page costs the browser that shows it, of the case `monitor`."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from sleipnir.worker.bench.monitor_client import MeasuredMonitor

REMEDY: Final = "Pages in a browser were not measured: they need playwright and Chromium"
_PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
_PATIENCE_MS: Final = 60_000
# Tasks that keep a page from reacting.
_LONG_TASKS: Final = """() => {
  window.longest = 0;
  new PerformanceObserver((seen) => {
    for (const task of seen.getEntries()) window.longest = Math.max(window.longest, task.duration);
  }).observe({ type: "longtask", buffered: true });
}"""


class MeasuredPage:
    """A page that is open in a browser."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self._devices = page.context.new_cdp_session(page)
        # CPU time, as others may use the machine meanwhile.
        self._devices.send("Performance.enable", {"timeDomain": "threadTicks"})

    def cpu_seconds(self, wait: Callable[[Any], None]) -> float:
        """Return the CPU time that the page's thread takes while `wait` passes."""
        before = self._task_seconds()
        wait(self._page)
        return self._task_seconds() - before

    def longest_task_ms(self) -> float:
        """Return how long the longest task took, in ms; 0: none took 50 ms."""
        return float(self._page.evaluate("window.longest"))

    def _task_seconds(self) -> float:
        metrics = self._devices.send("Performance.getMetrics")["metrics"]
        found = {metric["name"]: metric["value"] for metric in metrics}
        return float(found["TaskDuration"])


def is_installed() -> bool:
    """Return whether pages can be measured in a browser."""
    has_library = importlib.util.find_spec("playwright") is not None
    return has_library and any(map(shutil.which, _PROGRAMS))


@contextmanager
def open_page(server: MeasuredMonitor, path: str) -> Iterator[MeasuredPage]:
    """Open a page of the monitor in Chromium, and wait until it has loaded."""
    program = next(filter(None, map(shutil.which, _PROGRAMS)))
    library = importlib.import_module("playwright.sync_api")
    with library.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
            timeout=_PATIENCE_MS,
        )
        try:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.add_init_script(f"({_LONG_TASKS})()")
            page.goto(f"http://127.0.0.1:{server.port}/?key={server.key}")
            page.goto(f"http://127.0.0.1:{server.port}{path}")
            page.locator("[data-live=on]").wait_for(timeout=_PATIENCE_MS)
            yield MeasuredPage(page)
        finally:
            browser.close()
