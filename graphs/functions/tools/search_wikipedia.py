"""Searches Wikipedia."""

# @env WIKIPEDIA_API_URL=https://en.wikipedia.org/w/api.php  Which Wikipedia to ask.

import os

from sleipnir import web


def run(query: str) -> str:
    """Look something up in Wikipedia: the introduction of the article that matches best.

    Args:
        query: What to look up.
    """
    request = web.get(
        os.environ["WIKIPEDIA_API_URL"],
        action="query",
        generator="search",
        gsrsearch=query,
        gsrlimit=1,
        prop="extracts|info",
        exintro=1,
        explaintext=1,
        inprop="url",
        redirects=1,
        format="json",
        formatversion=2,
    )
    found = web.ask_json("Wikipedia", request)
    if "error" in found:
        raise SystemExit(f"Wikipedia refused the search: {found['error'].get('info')}")
    pages = found.get("query", {}).get("pages", [])
    if not pages:
        raise SystemExit(f"Wikipedia has no article for {query!r}")
    page = pages[0]
    return f"{page['title']}\n{page.get('fullurl', '')}\n\n{page.get('extract', '')}".strip()
