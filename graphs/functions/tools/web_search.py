"""Searches the web with a model that can."""

# @env WEB_SEARCH_MODEL=gemini:gemini-2.5-flash  The model, `provider:model`.
# @env GEMINI_API_KEY     The key of Gemini, where the model is one of those.
# @env GOOGLE_API_KEY     The same, under its other name.
# @env OPENAI_API_KEY     The key of OpenAI.
# @env OPENAI_BASE_URL    Another place that speaks OpenAI's protocol.
# @env ANTHROPIC_API_KEY  The key of Anthropic.
# @env PERPLEXITYAI_API_KEY  The key of Perplexity.
# @env PERPLEXITY_API_KEY    The same, under its other name.
# @env XAI_API_KEY        The key of xAI.
# @env OPENROUTER_API_KEY  The key of OpenRouter.

import os

TIMEOUT_S = 120
# Which variables may hold the key; litellm finds out for other providers.
KEYS = {
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "perplexity": ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
    "xai": ("XAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
}
# Read by litellm while it is imported: it would fetch its price list from the network.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("LITELLM_MODE", "PRODUCTION")


def run(query: str) -> str:
    """Search the web and return an answer to the query, with its sources.

    Args:
        query: What to find out, as a question or as keywords.
    """
    model = os.environ["WEB_SEARCH_MODEL"]
    keys = KEYS.get(model.partition(":")[0], ())
    if keys and not any(map(os.environ.get, keys)):
        raise SystemExit(
            f"web_search has no API key for {model}: set {' or '.join(keys)} in the environment "
            "of the worker, or another model in WEB_SEARCH_MODEL"
        )
    message = _answer(model, query)
    sources = _sources(message)
    answer = message.get("content") or ""
    return answer + ("\n\nSources:\n" + "\n".join(sources) if sources else "")


def _answer(model: str, query: str) -> dict:
    try:
        import litellm  # noqa: PLC0415  (takes seconds, and may be missing)
    except ImportError as error:
        raise SystemExit(
            "web_search needs the Python package litellm, which the interpreter of this call "
            f"lacks: {error}"
        ) from error
    litellm.suppress_debug_info = True
    try:
        response = litellm.completion(
            model=model.replace(":", "/", 1),
            messages=[{"role": "user", "content": query}],
            web_search_options={},
            # Whether a model can search is the provider's to say, not litellm's tables'.
            allowed_openai_params=["web_search_options"],
            timeout=TIMEOUT_S,
            max_retries=1,
        )
    except Exception as error:
        raise SystemExit(f"web_search: {model} failed: {error}") from error
    message = response.choices[0].message.model_dump(exclude_none=True)
    # Gemini's sources stand beside the message.
    message["grounding"] = getattr(response, "vertex_ai_grounding_metadata", None) or []
    message["citations"] = getattr(response, "citations", None) or []
    return message


def _sources(message: dict) -> list:
    """The pages an answer rests on, in the shapes that providers have for them."""
    found = [
        (note["url_citation"].get("url"), note["url_citation"].get("title"))
        for note in message.get("annotations", [])
        if note.get("url_citation")
    ]
    for grounding in message["grounding"]:
        chunks = [chunk.get("web", {}) for chunk in grounding.get("groundingChunks", [])]
        found += [(chunk.get("uri"), chunk.get("title")) for chunk in chunks]
    found += [(url, None) for url in message["citations"]]
    titles = {}
    for url, title in found:
        titles[url] = titles.get(url) or title
    return [f"- {title}: {url}" if title else f"- {url}" for url, title in titles.items() if url]
