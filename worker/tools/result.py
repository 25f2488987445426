"""What the model gets from a call: the tool's result, or why there is none."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any

from sleipnir.graphs.state import decode
from sleipnir.worker.tools.sanitize import cleaned, without_escapes

DONE = "DONE"  # stands for an empty result


def value_of(written: bytes, limit_bytes: int, secrets: Sequence[str]) -> Any:
    """Return the result as a JSON value, whatever the tool wrote."""
    said = decoded(written, limit_bytes, len(written) > limit_bytes)
    text = without_escapes(said.removeprefix("\ufeff"))
    if not text.strip():
        return DONE
    try:
        value = cleaned(decode(text), secrets)
    except ValueError:
        return {"output": cleaned(text, secrets)}
    return DONE if value is None else value


def decoded(content: bytes, limit_bytes: int, cut: bool) -> str:
    """Decode the beginning of a stream, with a note if the rest was cut."""
    text = content[:limit_bytes].decode(errors="replace")
    return text + _note("the rest", limit_bytes) if cut else text


def decoded_end(content: bytes, limit_bytes: int, cut: bool) -> str:
    """Decode the end of a stream, with a note if the beginning was cut."""
    text = content.decode(errors="replace")
    return _note("the beginning", limit_bytes) + text if cut else text


def failure(
    function: str, reason: str, *, stderr: str = "", stdout: str = "", output: str = ""
) -> dict[str, str]:
    """Return the value for a failed call; blank texts are left out."""
    texts = {"stderr": stderr, "stdout": stdout, "output": output}
    said = {name: text for name, text in texts.items() if text.strip()}
    return {"tool_call_error": f"{function}: {reason}", **said}


def status_text(returncode: int) -> str:
    """Return an exit status in words."""
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return f"signal {-returncode} ({signal.Signals(-returncode).name})"
    except ValueError:  # real-time signals have no names
        return f"signal {-returncode}"


def _note(what: str, limit_bytes: int) -> str:
    return f"\n[{what} was cut off: more than {limit_bytes:,} bytes]\n"
