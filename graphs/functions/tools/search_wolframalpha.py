"""Asks Wolfram Alpha."""

# @env WOLFRAM_API_ID!  The application id of the service.
# @env WOLFRAM_API_URL=https://api.wolframalpha.com/v2/query  Where the service is.

import os

from sleipnir import web


def run(query: str) -> dict:
    """Ask Wolfram Alpha for a computation or a fact of science, places, people or finance.

    Args:
        query: The question in English or as a formula.
    """
    request = web.get(
        os.environ["WOLFRAM_API_URL"],
        appid=os.environ["WOLFRAM_API_ID"],
        input=query,
        output="json",
        format="plaintext",
    )
    found = web.ask_json("Wolfram Alpha", request, timeout_s=60).get("queryresult", {})
    if found.get("error"):
        raise SystemExit(f"Wolfram Alpha refused the question: {found['error']}")
    pods = {pod.get("title", ""): _values(pod) for pod in found.get("pods", [])}
    answer = {title: values for title, values in pods.items() if values}
    if not answer:
        raise SystemExit(f"Wolfram Alpha has no answer to {query!r}")
    return answer


def _values(pod: dict) -> list:
    texts = (part.get("plaintext") for part in pod.get("subpods", []))
    return [text for text in texts if text]
