"""Tells the weather."""

# @env WTTR_URL=https://wttr.in  Where the service is.

import os
from urllib.parse import quote

from sleipnir import web


def run(location: str) -> str:
    """Get the current weather at a place: temperature and wind in metric units.

    Args:
        location: The place, such as `Oslo` or `Cambridge, Massachusetts`.
    """
    service = os.environ["WTTR_URL"].rstrip("/")
    # 4: one line with the place; M: wind in metres per second.
    request = web.get(f"{service}/{quote(location, safe='')}", format=4, M="")
    return web.ask("wttr.in", request).text.strip()
