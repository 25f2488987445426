"""Addresses of health checks."""

from __future__ import annotations


def parse(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`.

    Raises:
        ValueError: it is something else.
    """
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65536):
        raise ValueError(f"'{text}' is not HOST:PORT, such as 127.0.0.1:8081")
    return host.strip("[]"), int(port)
