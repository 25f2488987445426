"""Makes the recording that ships with `deep-research`; called by scripts/recordings.

Models and web are scripted (deep_research.py), the run is real. Models, findings and sources in it
are invented: it shows what the agent does, not facts about tidal turbines.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from sleipnir.graphs.document.references import SHIPPED_AGENTS
from tests.support import deep_research
from tests.support.command_line import Sleipnir
from tests.support.model_server import ModelServer
from tests.support.web_server import WebServer

RECORDING = SHIPPED_AGENTS / "deep-research" / "recordings" / "tidal-turbines.jsonl"
# What to set for a replay, so that it makes the same requests.
REPLAYED_WITH = {
    "SLEIPNIR_MODEL": "openai:gpt-4o-mini",
    "SLEIPNIR_RAG_EMBEDDING_MODEL": "none",
    "SLEIPNIR_MCP_SERVER_SUPPORT": "false",
}


def record(file: Path) -> int:
    """Run the investigation once, with one revision; return the command's exit status."""
    with (
        tempfile.TemporaryDirectory() as directory,
        ModelServer() as server,
        WebServer(deep_research.pages()) as web,
    ):
        deep_research.play(server, deep_research.REVISE, deep_research.PASS)
        sleipnir = Sleipnir(
            Path(directory),
            OPENAI_BASE_URL=server.base_url,
            OPENAI_API_KEY="sk-of-a-scripted-server",
            **REPLAYED_WITH,
            **deep_research.environment(web),
        )
        arguments = ("--answer", "approve=accept", "--record", str(file))
        done = sleipnir("run", "deep-research", deep_research.TOPIC, *arguments)
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(record(RECORDING))
