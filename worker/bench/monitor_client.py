"""A monitor that is measured: its process, and requests for its pages."""

from __future__ import annotations

import gzip
import http.client
import json
import re
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Final

from sleipnir.records import dataclass
from sleipnir.scheduler.config.directories import data_dir
from sleipnir.scheduler.config.monitor_key import monitor_key
from sleipnir.worker.bench.arena import Arena
from sleipnir.worker.bench.rows import Sample

# A client may ask for 50 pages a second.
_PACE_S: Final = 0.025
_START_S: Final = 60.0
_NEVER: Final = threading.Event()
_ASSET: Final = re.compile(rb'"(/assets/[^"#]+)')
_IMPORT: Final = re.compile(rb'(?:from|import) "\./([\w.]+)"')
_LISTENS: Final = re.compile(rb"http://127\.0\.0\.1:(\d+)")


@dataclass(frozen=True, slots=True)
class Weight:
    """What a page and the assets it loads take, in bytes."""

    raw: int  # of the page
    page: int  # as it is sent
    assets: int  # likewise, of all
    styles: int  # of the style sheets among them


@dataclass(frozen=True, slots=True)
class MeasuredMonitor:
    """A monitor process, and a client of it."""

    process: subprocess.Popen[bytes]
    port: int
    key: str

    @classmethod
    def start(cls, arena: Arena) -> MeasuredMonitor:
        """Start a monitor, and wait until it answers.

        Raises:
            RuntimeError: it does not answer.
        """
        log = arena.home / "workers.log"
        known = log.stat().st_size
        address = ("--address", "127.0.0.1", "--port", "0")
        module, url = "sleipnir.worker.monitor.server", arena.redis_url
        child = arena.start(module, *address, SLEIPNIR_REDIS_URL=url)
        ends_at = perf_counter() + _START_S
        while perf_counter() < ends_at and child.poll() is None:
            if found := _LISTENS.search(log.read_bytes()[known:]):
                made = cls(child, int(found[1]), monitor_key(data_dir()))
                with suppress(OSError):
                    made.get("/healthz")
                    return made
            _NEVER.wait(0.02)
        raise RuntimeError(f"the monitor did not start: {log.read_bytes()[known:].decode()}")

    def get(self, path: str) -> Sample:
        """Ask for a page and measure the time to its first byte.

        Raises:
            RuntimeError: it is refused.
        """
        return self._ask(path)[0]

    def text(self, path: str) -> bytes:
        """Return what an address gives, unpacked.

        Raises:
            RuntimeError: it is refused.
        """
        return _unpacked(self._ask(path)[1])

    def cursor(self) -> str:
        """Return the cursor of the second page of runs."""
        return str(json.loads(self.text("/api/v1/runs"))["next"])

    def weight(self, path: str) -> Weight:
        """Weigh a page with all that a first visit loads.

        Raises:
            RuntimeError: it is refused.
        """
        sent = self._ask(path)[1]
        page = _unpacked(sent)
        known: dict[str, int] = {}
        wanted = {each.decode() for each in _ASSET.findall(page)}
        while wanted:
            address = wanted.pop()
            asset = self._ask(address)[1]
            known[address] = len(asset)
            folder = address.rpartition("/")[0]
            imported = (f"{folder}/{each.decode()}" for each in _IMPORT.findall(_unpacked(asset)))
            wanted |= {each for each in imported if each not in known}
        styles = sum(size for address, size in known.items() if address.endswith(".css"))
        return Weight(len(page), len(sent), sum(known.values()), styles)

    def memory_bytes(self) -> int:
        """Return the memory that its process uses."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) * 1024 if found else 0

    def _ask(self, path: str) -> tuple[Sample, bytes]:
        _NEVER.wait(_PACE_S)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        began = perf_counter()
        connection.request(
            "GET", path, headers={"Authorization": f"Bearer {self.key}", "Accept-Encoding": "gzip"}
        )
        response = connection.getresponse()
        sample = Sample(perf_counter() - began, 0.0)
        text = response.read()
        connection.close()
        if response.status != 200:
            raise RuntimeError(f"{path}: HTTP status {response.status}: {text[:200]!r}")
        return sample, text


def _unpacked(text: bytes) -> bytes:
    return gzip.decompress(text) if text.startswith(b"\x1f\x8b") else text
