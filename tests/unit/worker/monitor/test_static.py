"""What browsers get: whose it is, and that it stays small."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from sleipnir.worker import monitor
from sleipnir.worker.monitor.site import assets

STATIC = Path(monitor.__file__).parent / "static"
# Version, and the sum of its file as published: idiomorph.min.js of the npm package.
VENDORED = {
    "idiomorph.js": ("0.8.0", "4cbd535caf7663a51eda9bce6595371c384fc430d54b8d414e29a61167f19f96")
}


def test_what_others_have_written_is_as_they_published_it() -> None:
    found = {file.name: file.read_bytes() for file in (STATIC / "vendor").glob("*.js")}

    assert {name: sha256(data).hexdigest() for name, data in found.items()} == {
        name: checksum for name, (_, checksum) in VENDORED.items()
    }
    for name in VENDORED:
        assert (STATIC / "vendor" / name).with_suffix(".LICENSE").read_text()
        assert name in assets()


def test_scripts_and_styles_stay_small() -> None:
    lines = {file.name: len(file.read_text().splitlines()) for file in STATIC.glob("*.*")}

    assert sum(count for name, count in lines.items() if name.endswith(".js")) <= 1_500
    assert lines["graph.js"] <= 320
    assert lines["monitor.css"] <= 700
