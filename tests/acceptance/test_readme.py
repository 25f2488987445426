"""The README's tour, typed in as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_five_minute_tour_works_as_written(tmp_path: Path) -> None:
    tour = README.read_text(encoding="utf-8").partition("## A five-minute tour")[2]
    blocks = re.findall(r"^```bash\n(.*?)^```", tour.partition("\n## ")[0], re.M | re.S)
    home = tmp_path / "tour"
    home.mkdir()
    environment = {
        **{name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SLEIPNIR_DATA_DIR": str(tmp_path / "data"),
        "SLEIPNIR_CONFIG_DIR": str(tmp_path / "config"),
    }

    with (tmp_path / "output.txt").open("w+") as output:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(blocks)],
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=110,
            check=False,
        )
        output.seek(0)
        printed = output.read()

    assert done.returncode == 0, printed
    assert len(blocks) >= 4
    assert len((home / "results.jsonl").read_text().splitlines()) == 3
    assert "4 words, the longest is 'quick'" in printed
