"""What a Python tool may ask of the engine that runs it.

Standard library only, and valid on old Pythons: it runs under the interpreter that a tool chooses.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

ASKS = 75  # exit status of a tool that waits for a person's answer


def guard(question: str) -> None:
    """Go on only with a person's consent: call it before you change anything.

    Without consent the tool ends here. Once the person agrees, the same call runs again from its
    start, and this returns.
    """
    if os.environ.get("AUTO_CONFIRM") or os.environ.get("LLM_AGENT_VAR_AUTO_CONFIRM"):
        return
    asked = os.environ.get("LLM_GUARD_FILE")
    if not asked:
        sys.exit(
            f"confirmation is required, but no person is available: {question}\n"
            "Set AUTO_CONFIRM=true to continue."
        )
    granted = Path(os.environ["LLM_GUARD_GRANTS_FILE"]).read_bytes().split(b"\0")
    text = question.encode("utf-8", "replace")
    if text in granted:
        return
    Path(asked).write_text(json.dumps({"question": text.decode()}), encoding="utf-8")
    sys.stdout.flush()
    # Not an exception: a tool that catches everything must not go on without consent.
    os._exit(ASKS)


def guard_path(path: str | os.PathLike[str], question: str) -> None:
    """Like `guard`, but only for a path outside the current directory; links are resolved."""
    if not Path(path).resolve().is_relative_to(Path.cwd().resolve()):
        guard(question)
