"""Searches the web through Tavily."""

# @env TAVILY_API_KEY!  The key of the service.
# @env TAVILY_API_URL=https://api.tavily.com/search  Where the service is.

import os

from sleipnir import web


def run(query: str) -> str:
    """Search the web through Tavily and return an answer to the query, with its sources.

    Args:
        query: What to find out, as a question or as keywords.
    """
    document = {"query": query, "include_answer": True}
    headers = {"Authorization": f"Bearer {os.environ['TAVILY_API_KEY']}"}
    request = web.post(os.environ["TAVILY_API_URL"], document, headers)
    found = web.ask_json("Tavily", request, timeout_s=60)
    parts = [found.get("answer") or "", *map(_result, found.get("results", []))]
    return "\n\n".join(filter(None, parts)) or f"Tavily found nothing for {query}"


def _result(result: dict) -> str:
    return f"[{result.get('title')}]({result.get('url')})\n{result.get('content') or ''}".strip()
