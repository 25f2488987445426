"""Fetches a web page through the Jina reader."""

# @env JINA_API_KEY                     A key raises the limits of the service.
# @env JINA_READER_URL=https://r.jina.ai  Where the service is.

import os
from urllib.parse import urlsplit

from sleipnir import addresses, web


def run(url: str) -> str:
    """Fetch a web page through the Jina reader, which also renders pages made by scripts.

    Args:
        url: The address of the page, beginning with http:// or https://.
    """
    _refuse_private(url)
    headers = {"X-Return-Format": "markdown", "X-Retain-Images": "none"}
    if key := os.environ.get("JINA_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    request = web.Request(f"{os.environ['JINA_READER_URL'].rstrip('/')}/{url}", headers=headers)
    return web.ask("the Jina reader", request, timeout_s=60).text


def _refuse_private(url: str) -> None:
    """Refuse private addresses: the reader's operator must not learn them."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SystemExit("only http:// and https:// URLs with a host can be fetched")
    try:
        addresses.resolve(parts.hostname, 443, addresses.private_allowed())
    except addresses.HostUnknown:
        pass  # the service may know it
    except addresses.AddressRefused as error:
        raise SystemExit(str(error)) from error
