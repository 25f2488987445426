"""Health checks, as whoever supervises processes makes them."""

from __future__ import annotations

from http.client import HTTPConnection


def get(port: int, path: str) -> tuple[int, str]:
    """Return the status and text of a page; status 0 if nobody answers."""
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


def is_well(port: int, path: str) -> bool:
    return get(port, path)[0] == 200
