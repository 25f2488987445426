"""Searches arXiv."""

# @env ARXIV_MAX_RESULTS=3  How many papers to return at most.
# @env ARXIV_API_URL=https://export.arxiv.org/api/query  Where the service is.

import os
import xml.etree.ElementTree as ET

from sleipnir import web

ATOM = "{http://www.w3.org/2005/Atom}"


def run(query: str) -> str:
    """Search arXiv for scientific papers and return the best matches with their abstracts.

    Args:
        query: What to search for; terms may carry arXiv's field prefixes, such as `ti:` or `au:`.
    """
    wanted = os.environ["ARXIV_MAX_RESULTS"]
    if not wanted.isascii() or not wanted.isdigit():
        raise SystemExit(f"ARXIV_MAX_RESULTS must be a number, got {wanted!r}")
    request = web.get(
        os.environ["ARXIV_API_URL"], search_query=query, max_results=wanted, sortBy="relevance"
    )
    try:
        feed = ET.fromstring(web.ask("arXiv", request).body)
    except ET.ParseError as error:
        raise SystemExit(f"arXiv did not answer with a feed: {error}") from error
    papers = [_paper(entry) for entry in feed.iter(f"{ATOM}entry")]
    return "\n\n".join(papers) or f"arXiv has no paper for {query}"


def _paper(entry: ET.Element) -> str:
    authors = [_text(author, "name") for author in entry.iter(f"{ATOM}author")]
    return "\n".join(
        [
            f"Title: {_text(entry, 'title')}",
            f"Authors: {', '.join(authors)}",
            f"Published: {_text(entry, 'published')[:10]}",
            f"URL: {_text(entry, 'id')}",
            f"Abstract: {_text(entry, 'summary')}",
        ]
    )


def _text(element: ET.Element, name: str) -> str:
    return " ".join((element.findtext(f"{ATOM}{name}") or "").split())
