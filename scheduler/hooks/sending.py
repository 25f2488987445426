"""One request of a delivery: where it may go, how long it may take, what is read of its reply."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from functools import cache
from time import monotonic
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore

from sleipnir.graphs.document.finding import printable
from sleipnir.graphs.functions.lib.sleipnir.addresses import AddressRefused, HostUnknown, resolve
from sleipnir.records import dataclass

CONNECT_S: Final = 5.0
TOTAL_S: Final = 20.0
_MOST_READ: Final = 64 * 1024
_EXCERPT: Final = 1024  # bytes of a refusal


@dataclass(frozen=True, slots=True)
class HookReply:
    """What came of a request."""

    status: int | None  # None: there was no reply
    problem: str = ""  # why it does not count as delivered; the beginning of a refusal
    retry_after_s: float | None = None

    @property
    def is_delivered(self) -> bool:
        return not self.problem


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    allow_private: bool,
    total_s: float = TOTAL_S,
) -> HookReply:
    """Send a request to an address that was checked; redirects are not followed.

    Args:
        allow_private: whether it may be an address that is not public.
    """
    ends_at = monotonic() + total_s
    proxy = _proxy_for(url)
    network = _Network(ends_at, allow_private=allow_private or proxy is not None)
    sent = {"Host": urlsplit(url).netloc, "Accept": "*/*", "Connection": "close"}
    sent |= {"Content-Length": str(len(body)), **headers}
    limits = {"connect": CONNECT_S, "read": total_s, "write": total_s, "pool": total_s}
    try:
        with (
            httpcore.ConnectionPool(
                ssl_context=_certificates(), network_backend=network, proxy=proxy
            ) as pool,
            pool.stream(
                "POST",
                url,
                headers=list(sent.items()),
                content=body,
                extensions={"timeout": limits},
            ) as response,
        ):
            return _reply(response)
    except (AddressRefused, HostUnknown) as error:
        return HookReply(None, str(error))
    except (httpcore.TimeoutException, TimeoutError):
        return HookReply(None, f"no reply within {total_s:.0f} s")
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.ProxyError, OSError) as error:
        return HookReply(
            None, f"no reply: {printable(str(error)) or type(error).__name__}"[:_EXCERPT]
        )
    except (ValueError, httpcore.UnsupportedProtocol) as error:
        return HookReply(None, f"the URL cannot be used: {printable(str(error))}"[:_EXCERPT])


def _reply(response: httpcore.Response) -> HookReply:
    excerpt, read = b"", 0
    # Its status counts, however its body ends.
    with contextlib.suppress(httpcore.TimeoutException, httpcore.NetworkError, OSError):
        for piece in response.iter_stream():
            excerpt, read = (excerpt + piece)[:_EXCERPT], read + len(piece)
            if read >= _MOST_READ:
                break
    if 200 <= response.status < 300:
        return HookReply(response.status)
    text = printable(excerpt.decode(errors="replace"))
    problem = f"the reply is {response.status}{': ' if text else ''}{text}"
    if 300 <= response.status < 400:
        problem = f"the reply is {response.status}, and redirects are not followed"
    return HookReply(response.status, problem, _retry_after_s(response))


def _retry_after_s(response: httpcore.Response) -> float | None:
    """Return the seconds that a reply asks to wait: as such, or until a date after its own."""
    value = _header(response, "retry-after")
    if value.isascii() and value.isdigit() and len(value) < 10:
        return float(value)
    try:
        dates = [parsedate_to_datetime(each) for each in (value, _header(response, "date"))]
        return max(0.0, (dates[0] - dates[1]).total_seconds())
    except (ValueError, TypeError):  # there is none, or only one has a time zone
        return None


def _header(response: httpcore.Response, name: str) -> str:
    named = (value for key, value in response.headers if key.lower() == name.encode())
    return next(named, b"").decode(errors="replace").strip()


@cache
def _certificates() -> ssl.SSLContext:
    return ssl.create_default_context()


def _proxy_for(url: str) -> httpcore.Proxy | None:
    parts = urlsplit(url)
    proxies = getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    if not found or proxy_bypass(parts.hostname or ""):
        return None
    there = urlsplit(found if "://" in found else f"http://{found}")
    auth = (unquote(there.username), unquote(there.password or "")) if there.username else None
    return httpcore.Proxy(f"{there.scheme}://{there.hostname}:{there.port or 80}", auth=auth)


class _Network(httpcore.NetworkBackend):
    """Connects to the address that was checked, and ends everything at an instant."""

    def __init__(self, ends_at: float, *, allow_private: bool) -> None:
        self._inner = httpcore.SyncBackend()
        self._ends_at = ends_at
        self._allow_private = allow_private

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        failure: Exception | None = None
        for address in resolve(host, port, self._allow_private):
            try:
                within = _left_s(self._ends_at, timeout)
                return _Stream(self._inner.connect_tcp(address, port, within), self._ends_at)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore.ConnectError(f"{host} has no address")


class _Stream(httpcore.NetworkStream):
    """A connection on which each step has what is left of the time."""

    def __init__(self, inner: httpcore.NetworkStream, ends_at: float) -> None:
        self._inner = inner
        self._ends_at = ends_at

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _left_s(self._ends_at, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _left_s(self._ends_at, timeout))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        within = _left_s(self._ends_at, timeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, within), self._ends_at)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _left_s(ends_at: float, timeout: float | None) -> float:
    left_s = ends_at - monotonic()
    if left_s <= 0:
        raise httpcore.ReadTimeout("the time for the request is over")
    return left_s if timeout is None else min(left_s, timeout)
