"""The monitor as a process of its own, and its pages as texts."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from urllib.request import Request, urlopen

from tests.support.command_line import Sleipnir

_LOGIN = "ada:secret"


@contextmanager
def pages(sleipnir: Sleipnir) -> Iterator[str]:
    """Run the monitor; yields its address."""
    monitor = sleipnir.start("monitor", "--port", "0", "--basic-auth", _LOGIN)
    assert monitor.stderr is not None
    (address,) = re.findall(r"http://\S+", monitor.stderr.readline())
    try:
        yield address
    finally:
        monitor.terminate()
        monitor.communicate(timeout=60)


def read(address: str) -> str:
    page = Request(address)
    page.add_header("Authorization", f"Basic {b64encode(_LOGIN.encode()).decode()}")
    with urlopen(page, timeout=60) as answer:
        text: str = answer.read().decode()
    return unescape(text)
