"""Fetches over HTTP for tools: public addresses only, bounded in size, time and redirects.

A fetch connects to exactly the addresses that were checked, after every redirect again. If the
environment names a proxy, the proxy resolves names; they are still checked if they resolve here.

Imports little, as every call of a tool imports it again: records are named tuples because
`dataclasses` alone would take an eighth of a short fetch.
"""

from __future__ import annotations

import base64
import codecs
import contextlib
import http.client
import json
import os
import re
import socket
import ssl
import sys
import threading
import zlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlencode, urljoin, urlsplit

from .addresses import AddressRefused, HostUnknown, private_allowed, resolve

MAX_BYTES = 10 * 1024 * 1024
MAX_REDIRECTS = 5
TIMEOUT_S = 30.0
# For resolving a name here that the proxy will resolve anyway.
LOCAL_LOOKUP_S = 2.0
USER_AGENT = "Mozilla/5.0 (compatible; Sleipnir/1.0)"

_REDIRECTS = (301, 302, 303, 307, 308)
_PORTS = {"http": 80, "https": 443}
_META_CHARSET = re.compile(rb"""<meta[^>]+charset=["']?([\w.:-]+)""", re.IGNORECASE)

# The charsets of the Encoding Standard, by its labels, with `-` for `_`, and read as it says: none
# takes more than linear time, which other codecs of Python do.
_LABELS = {
    "utf-8": "utf8 unicode-1-1-utf-8 x-unicode20utf8",
    "utf-16-le": "utf-16 utf-16le utf16 ucs-2 unicode csunicode iso-10646-ucs-2",
    "utf-16-be": "utf-16be unicodefffe",
    "cp1252": "windows-1252 x-cp1252 cp819 ibm819 iso-8859-1 iso8859-1 iso88591 iso-ir-100 latin1 "
    "latin-1 l1 csisolatin1 ascii us-ascii ansi-x3.4-1968",
    "cp866": "866 ibm866 csibm866",
    **{f"cp{n}": f"windows-{n} x-cp{n}" for n in (1250, 1251, 1253, 1255, 1256, 1257, 1258)},
    "cp1254": "windows-1254 x-cp1254 iso-8859-9 iso8859-9 iso88599 latin5 l5",
    "cp874": "windows-874 dos-874 iso-8859-11 iso8859-11 iso885911 tis-620",
    "iso8859-2": "iso-8859-2 iso88592 latin2 l2",
    "iso8859-3": "iso-8859-3 iso88593 latin3 l3",
    "iso8859-4": "iso-8859-4 iso88594 latin4 l4",
    "iso8859-5": "iso-8859-5 iso88595 cyrillic",
    "iso8859-6": "iso-8859-6 iso88596 arabic asmo-708 ecma-114 iso-8859-6-e iso-8859-6-i",
    "iso8859-7": "iso-8859-7 iso88597 greek greek8 ecma-118 elot-928",
    "iso8859-8": "iso-8859-8 iso88598 hebrew visual iso-8859-8-e iso-8859-8-i logical",
    "iso8859-10": "iso-8859-10 iso885910 latin6 l6",
    "iso8859-13": "iso-8859-13 iso885913",
    "iso8859-14": "iso-8859-14 iso885914",
    "iso8859-15": "iso-8859-15 iso885915 latin9 l9",
    "iso8859-16": "iso-8859-16",
    "koi8-r": "koi koi8 cskoi8r",
    "koi8-u": "koi8-ru",
    "mac-roman": "macintosh mac x-mac-roman",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "gb18030": "gbk gb2312 gb-2312 gb-2312-80 chinese csgb2312 iso-ir-58 x-gbk",
    "big5hkscs": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc-jp": "x-euc-jp cseucpkdfmtjapanese",
    "iso2022-jp": "iso-2022-jp csiso2022jp",
    "cp932": "shift-jis shiftjis sjis x-sjis ms932 ms-kanji windows-31j csshiftjis",
    "cp949": "euc-kr cseuckr korean ks-c-5601-1987 ks-c-5601-1989 ksc5601 ksc-5601 windows-949 uhc",
}
_CODECS = {label: codec for codec, labels in _LABELS.items() for label in (codec, *labels.split())}
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class FetchError(Exception):
    """A fetch failed; the text says why."""


class Request(NamedTuple):
    """What to ask for. A service's body and headers are sent to its own host only."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes | None = None


class Response(NamedTuple):
    """The response of a server."""

    url: str  # after redirects
    status: int
    content_type: str  # without parameters, in lower case
    charset: str
    body: bytes

    @property
    def text(self) -> str:
        """The body as text, by its mark, in the charset of the server or the page, else UTF-8."""
        for mark, codec in _MARKS.items():
            if self.body.startswith(mark):
                return self.body.decode(codec, errors="replace")
        named = _META_CHARSET.search(self.body[:2048])
        of_page = _CODECS.get(_label(named.group(1).decode("ascii"))) if named else None
        # A page whose declaration was readable is not in UTF-16.
        of_page = "utf-8" if of_page in ("utf-16-le", "utf-16-be") else of_page
        codec = _CODECS.get(_label(self.charset)) or of_page or "utf-8"
        return self.body.decode(codec, errors="replace")


def _label(charset: str) -> str:
    return charset.strip().lower().replace("_", "-")


def fetch(
    request: Request,
    *,
    timeout_s: float = TIMEOUT_S,
    allow_private: bool | None = None,
    max_bytes: int = MAX_BYTES,
) -> Response:
    """Fetch a URL, following redirects; any HTTP status is returned.

    Args:
        request: what to fetch.
        timeout_s: per hop, without resolving its name.
        allow_private: whether private addresses may be accessed; None: by the engine's setting.
        max_bytes: of the decompressed body.

    Raises:
        FetchError: for any failure.
    """
    allowed = private_allowed() if allow_private is None else allow_private
    for _ in range(MAX_REDIRECTS + 1):
        try:
            response, location = _hop(request, timeout_s, allowed, max_bytes)
        except (AddressRefused, HostUnknown) as error:
            raise FetchError(str(error)) from error
        except (OSError, http.client.HTTPException, zlib.error, ValueError) as error:
            raise FetchError(f"cannot fetch {request.url}: {_reason(error)}") from error
        if location is None:
            return response
        request = _redirected(request, location)
    raise FetchError(f"cannot fetch {request.url}: more than {MAX_REDIRECTS} redirects")


def ask(service: str, request: Request, *, timeout_s: float = TIMEOUT_S) -> Response:
    """Fetch from a service on behalf of a tool; any failure ends the tool with a message."""
    try:
        response = fetch(request, timeout_s=timeout_s)
    except FetchError as error:
        raise SystemExit(f"{service}: {error}") from error
    if response.status >= 400:
        detail = " ".join(response.text.split())[:500]
        raise SystemExit(f"{service} answered with HTTP status {response.status}: {detail}")
    return response


def ask_json(service: str, request: Request, *, timeout_s: float = TIMEOUT_S) -> Any:
    """Like `ask`, for a service that answers in JSON."""
    response = ask(service, request, timeout_s=timeout_s)
    try:
        return json.loads(response.text)
    except ValueError as error:
        raise SystemExit(f"{service} did not answer in JSON: {response.text[:200]!r}") from error


def get(url: str, headers: Mapping[str, str] | None = None, **query: object) -> Request:
    """Return a GET request for a URL with these query parameters."""
    return Request(f"{url}?{urlencode(query)}" if query else url, headers=headers or {})


def post(url: str, document: object, headers: Mapping[str, str] | None = None) -> Request:
    """Return a POST request with a JSON document."""
    body = json.dumps(document).encode()
    return Request(url, "POST", {"Content-Type": "application/json", **(headers or {})}, body)


# ---- one hop


def _hop(
    request: Request, timeout_s: float, allowed: bool, max_bytes: int
) -> tuple[Response, str | None]:
    """Make one request; return its response, and the URL that it redirects to."""
    url = _checked(request.url)
    connection, target = _connected(url, timeout_s, allowed)
    headers = {
        "Host": url.netloc,
        "User-Agent": USER_AGENT,
        "Accept": "*/*",
        "Accept-Encoding": "gzip",
        "Connection": "close",
        # Through a tunnel, the host itself would receive them.
        **(_proxy_credentials(url) if url.scheme == "http" else {}),
        **request.headers,
    }
    with _Limit(connection.sock, timeout_s):
        try:
            if url.scheme == "https":
                context = ssl.create_default_context()
                connection.sock = context.wrap_socket(connection.sock, server_hostname=_host(url))
            connection.request(request.method, target, request.body, headers)
            with connection.getresponse() as answer:
                location = answer.headers.get("Location") if answer.status in _REDIRECTS else None
                body = b"" if location else _body(answer, max_bytes)
        finally:
            connection.close()
    response = Response(
        url=request.url,
        status=answer.status,
        content_type=answer.headers.get_content_type(),
        charset=answer.headers.get_content_charset() or "",
        body=body,
    )
    return response, location


def _checked(text: str) -> SplitResult:
    """Return a URL that can be requested, with spaces and non-ASCII letters quoted."""
    url = urlsplit(text.strip())
    if url.scheme not in _PORTS or not url.hostname:
        raise ValueError("only http:// and https:// URLs with a host can be fetched")
    kept = "%/:=&?~+!$,;'@()*[]"
    return url._replace(
        netloc=url.netloc.rpartition("@")[2].encode("idna").decode("ascii"),
        path=quote(url.path, safe=kept) or "/",
        query=quote(url.query, safe=kept),
        fragment="",
    )


def _connected(
    url: SplitResult, timeout_s: float, allowed: bool
) -> tuple[http.client.HTTPConnection, str]:
    """Return a connection to the host or its proxy, and the target to request."""
    port = _port(url)
    path = url._replace(scheme="", netloc="").geturl()
    proxy = _proxy(url)
    if proxy is None:
        connection = http.client.HTTPConnection(_host(url), port)
        connection.sock = _socket(resolve(_host(url), port, allowed), port, timeout_s)
        return connection, path
    if not allowed:
        _refuse_private(_host(url), port)
    connection = http.client.HTTPConnection(_host(proxy), proxy.port or 3128, timeout=timeout_s)
    if url.scheme == "https":
        connection.set_tunnel(_host(url), port, _proxy_credentials(url))
    connection.connect()
    return connection, path if url.scheme == "https" else url.geturl()


def _refuse_private(host: str, port: int) -> None:
    """Raise AddressRefused if a name is known here, and soon, to be private.

    What is unknown here the proxy may know.
    """
    refused: list[AddressRefused] = []

    def look_up() -> None:
        try:
            resolve(host, port, False)
        except HostUnknown:
            pass
        except AddressRefused as error:
            refused.append(error)

    lookup = threading.Thread(target=look_up, daemon=True)
    lookup.start()
    lookup.join(LOCAL_LOOKUP_S)
    if refused:
        raise refused[0]


def _socket(addresses: list[str], port: int, timeout_s: float) -> socket.socket:
    """Connect to the first address that accepts."""
    for address in addresses[:-1]:
        try:
            return socket.create_connection((address, port), timeout_s)
        except OSError:
            continue
    return socket.create_connection((addresses[-1], port), timeout_s)


def _body(answer: http.client.HTTPResponse, max_bytes: int) -> bytes:
    """Read and decompress the body, holding little more than `max_bytes`."""
    body = answer.read(max_bytes + 1)
    if answer.headers.get("Content-Encoding", "").lower() in ("gzip", "x-gzip") and body:
        body = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(body, max_bytes + 1)
    if len(body) > max_bytes:
        raise ValueError(f"more than {max_bytes // 1024 // 1024} MiB")
    return body


class _Limit:
    """Cuts a connection off at a time limit, even if bytes still keep arriving slowly."""

    def __init__(self, sock: socket.socket, timeout_s: float) -> None:
        # TLS replaces the socket itself; the duplicate still refers to the connection.
        self._sock = sock.dup()
        self._timeout_s = timeout_s
        self._timer = threading.Timer(timeout_s, self._cut)
        self._timer.daemon = True
        self._passed = False

    def _cut(self) -> None:
        self._passed = True
        with contextlib.suppress(OSError):  # the other side has closed first
            self._sock.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._timer.cancel()
        self._timer.join()
        self._sock.close()
        if self._passed:
            raise TimeoutError(f"no complete answer within {self._timeout_s:g} s")


# ---- derived from a URL


def _redirected(request: Request, location: str) -> Request:
    """Return the next hop; only a plain GET or HEAD is sent to another host."""
    if request.body is not None:
        raise FetchError(f"cannot fetch {request.url}: it redirects to {location}")
    url = urljoin(request.url, location)
    before, after = urlsplit(request.url), urlsplit(url)
    same = (before.scheme, before.netloc) == (after.scheme, after.netloc)
    return Request(url, request.method, request.headers if same else {})


def _host(url: SplitResult) -> str:
    assert url.hostname is not None, "it was checked"
    return url.hostname


def _port(url: SplitResult) -> int:
    return url.port or _PORTS[url.scheme]


def _proxy(url: SplitResult) -> SplitResult | None:
    """Return the proxy that the environment names for a URL."""
    if not _may_have_proxy():
        return None
    import urllib.request  # noqa: PLC0415  (a sixth of what a short fetch takes)

    proxies = urllib.request.getproxies()
    named = proxies.get(url.scheme) or proxies.get("all")
    if not named or urllib.request.proxy_bypass(_host(url)):
        return None
    proxy = urlsplit(named if "://" in named else f"http://{named}")
    if proxy.scheme != "http" or not proxy.hostname:
        raise ValueError(f"the proxy {proxy.hostname or named} is not of the kind http://host:port")
    return proxy


def _may_have_proxy() -> bool:
    """Return whether a proxy may be set; only macOS and Windows have settings besides variables."""
    named = any(name.lower().endswith("_proxy") for name in os.environ)
    return named or sys.platform in ("darwin", "win32")


def _proxy_credentials(url: SplitResult) -> dict[str, str]:
    proxy = _proxy(url)
    if proxy is None or proxy.username is None:
        return {}
    credentials = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": "Basic " + base64.b64encode(credentials.encode()).decode()}


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
