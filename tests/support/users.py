"""Users of the monitor."""

from __future__ import annotations

from base64 import b64encode


def basic(name: str, password: str) -> dict[str, str]:
    """Return the header by which a browser sends a name and a password."""
    return {"Authorization": f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"}
