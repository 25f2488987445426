"""Makes the recording that ships with the template `classify`; called by scripts/recordings.

The model is scripted, and unsure of one message; the runs are real.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.support.command_line import Sleipnir
from tests.support.model_server import ModelServer, says
from tests.support.pages import ROOT

TEMPLATE: Final = ROOT / "scheduler" / "cli" / "templates" / "classify"
RECORDING: Final = TEMPLATE / "recordings" / "golden.jsonl"
UNSURE: Final = "g3"


def record(file: Path) -> int:
    """Run the rows of its evaluation once; return the command's exit status."""
    with (TEMPLATE / "evals" / "golden.csv").open(newline="") as table:
        rows = list(csv.DictReader(table))
    with tempfile.TemporaryDirectory() as directory, ModelServer() as server:
        for row in rows:
            confidence = 0.6 if row["id"] == UNSURE else 0.95
            reply = json.dumps({"topic": row["expected"], "confidence": confidence})
            server.when(row["prompt"], says(reply, prompt_tokens=140, completion_tokens=14))
        sleipnir = Sleipnir(
            Path(directory),
            OPENAI_BASE_URL=server.base_url,
            OPENAI_API_KEY="sk-of-a-scripted-server",
        )
        sleipnir("init", "recorded", "--template", "classify")
        given = sleipnir.project / "rows.jsonl"
        lines = [{"id": row["id"], "prompt": row["prompt"]} for row in rows]
        given.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        done = sleipnir("batch", "recorded", str(given), "--record", str(file))
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


if __name__ == "__main__":
    RECORDING.parent.mkdir(exist_ok=True)
    sys.exit(record(RECORDING))
