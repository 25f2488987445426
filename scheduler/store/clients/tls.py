"""What URLs with TLS say about certificates, for redis-py and for kombu.

    rediss://[[USER]:PASSWORD@]HOST[:PORT][/DB][?ssl_ca_certs=FILE&ssl_certfile=FILE&ssl_keyfile=FILE]

The options are the same for `rediss+cluster://` and `sentinels://`. kombu would connect without TLS
if there were no option, so it is always given one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from redis.connection import parse_url

SCHEME = "rediss://"
SENTINELS = "sentinels://"
_SCHEMES = (SCHEME, SENTINELS, "rediss+cluster://")
PREFIX = "ssl_"
_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
UNCHECKED = (
    "the certificate of this Redis is not checked (ssl_cert_reqs=none): whoever can redirect the "
    "connection can read its password and all runs; give its CA with ssl_ca_certs"
)


def tls_options(url: str) -> dict[str, Any] | None:
    """Return a URL's options, with the types that connections take; None: without TLS.

    Raises:
        ValueError: the URL is not valid.
    """
    if not url.startswith((SCHEME, SENTINELS)):
        return None
    parse: Any = parse_url  # untyped in redis-py, and ignorant of other schemes
    options = parse(f"{SCHEME}?{url.partition('?')[2]}")
    given = {name: value for name, value in options.items() if name.startswith(PREFIX)}
    return {"ssl_cert_reqs": "required", **given}


def is_unchecked(connection_options: dict[str, Any]) -> bool:
    """Return whether connections with these options accept any certificate."""
    return str(connection_options.get("ssl_cert_reqs", "")).lower() == "none"


def certificate_hint(url: str, error: str) -> str:
    """Return what to add to an error: which file of the URL cannot be read, as it names none.

    Or that the URL lacks an authority, or that the server may want TLS, or a certificate of its
    clients: it just closes the connection of a client without one.
    """
    if url.startswith("unix:"):
        return ""
    if not url.startswith(_SCHEMES):
        return " (does it want TLS? then write rediss://)" if "closed" in error else ""
    given = dict(parse_qsl(url.partition("?")[2]))
    for name in _FILES:
        try:
            Path(given.get(name, os.devnull)).open("rb").close()
        except (OSError, ValueError) as unreadable:
            reason = getattr(unreadable, "strerror", None) or unreadable
            return f" ({name}: cannot read {given[name]}: {reason})"
    if "ssl_ca_certs" not in given and "CERTIFICATE_VERIFY_FAILED" in error:
        return " (name the file of its authority with ?ssl_ca_certs=)"
    if "ssl_certfile" not in given and "closed" in error:
        return " (does it want a client certificate? give one with ssl_certfile and ssl_keyfile)"
    return ""
