"""What the monitor's pages weigh, of the case `monitor`."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from typing import Final

from sleipnir.worker.bench.monitor_client import MeasuredMonitor
from sleipnir.worker.bench.rows import Row
from sleipnir.worker.monitor.site import assets

# Goals, in kB of 1,000 bytes; as they are sent, unless it says raw.
FIRST_VISIT: Final = 90
LATER: Final = 15
STYLES: Final = 12
SCRIPTS: Final = 30
PAGE_RAW: Final = 400
GRAPH_RAW: Final = 250
ITEMS: Final = 60
_KB: Final = 1_000
# Those of others, which no change here makes larger.
_OF_OTHERS: Final = ("idiomorph.js",)


def scripts_bytes() -> int:
    """Return what all scripts of the monitor's own take, compressed."""
    ours = (text for name, text in sorted(assets().items()) if name.endswith(".js"))
    others = {assets()[name] for name in _OF_OTHERS}
    return len(gzip.compress(b"".join(text for text in ours if text not in others)))


def weights(server: MeasuredMonitor, pages: Mapping[str, str], graph: str) -> Iterator[Row]:
    """Weigh pages.

    Args:
        pages: addresses by name.
        graph: the name of the one that has a large drawing.
    """
    found = {name: server.weight(path) for name, path in pages.items()}
    for name, weight in found.items():
        most = ITEMS if name.startswith("items") else LATER
        yield _row(f"{name}, sent later", weight.page).within(most)
    most_sent = max(weight.page + weight.assets for weight in found.values())
    yield _row("any page, sent at a first visit", most_sent).within(FIRST_VISIT)
    yield _row("any page, its styles", max(each.styles for each in found.values())).within(STYLES)
    yield _row("own scripts of all pages", scripts_bytes()).within(SCRIPTS)
    yield _row("any page, raw", max(each.raw for each in found.values())).within(PAGE_RAW)
    yield _row(f"{graph}, raw", found[graph].raw).within(GRAPH_RAW)


def _row(name: str, size: int) -> Row:
    return Row(name, "kB", *[size / _KB] * 2)
