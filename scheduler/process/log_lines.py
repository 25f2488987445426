"""Lines of logs as JSON objects, for processes that do without the module `logging`."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from socket import gethostname

# A variable, so that each process that this one starts writes the same.
FORMAT_VARIABLE = "SLEIPNIR_LOG_FORMAT"


def machine() -> str:
    """Return the name of this machine."""
    return os.environ.get("SLEIPNIR_MACHINE") or gethostname()


def log_line(logger: str, level: str, text: str) -> str:
    """Return a line in the format that is configured, without its end."""
    if os.environ.get(FORMAT_VARIABLE) != "json":
        return f"{logger}: {text}"
    return json_line(logger, level, text, datetime.now(UTC), machine(), {})


def json_line(
    logger: str, level: str, text: str, at: datetime, host: str, others: dict[str, object]
) -> str:
    """Return an object with these fields and `others`."""
    document = {
        "ts": at.isoformat(timespec="milliseconds"),
        "level": level.lower(),
        "logger": logger,
        "msg": text,
        "machine": host,
        "pid": os.getpid(),
        **others,
    }
    return json.dumps(document, ensure_ascii=False, default=str)
