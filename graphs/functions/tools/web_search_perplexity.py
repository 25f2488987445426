"""Searches the web through Perplexity."""

# @env PERPLEXITY_API_KEY!  The key of the service.
# @env PERPLEXITY_MODEL=sonar  Which of its models answers.
# @env PERPLEXITY_API_URL=https://api.perplexity.ai/chat/completions  Where the service is.

import os

from sleipnir import web


def run(query: str) -> str:
    """Search the web through Perplexity and return its answer, with the sources.

    Args:
        query: What to find out, as a question or as keywords.
    """
    document = {
        "model": os.environ["PERPLEXITY_MODEL"],
        "messages": [{"role": "user", "content": query}],
    }
    headers = {"Authorization": f"Bearer {os.environ['PERPLEXITY_API_KEY']}"}
    request = web.post(os.environ["PERPLEXITY_API_URL"], document, headers)
    found = web.ask_json("Perplexity", request, timeout_s=120)
    try:
        answer = found["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError) as error:
        raise SystemExit(f"Perplexity answered without a text: {str(found)[:200]}") from error
    sources = [f"[{i}] {url}" for i, url in enumerate(found.get("citations") or [], 1)]
    return answer + ("\n\nSources:\n" + "\n".join(sources) if sources else "")
