"""Whether litellm is there: where all models are asked directly, it may be left out."""

from __future__ import annotations

from importlib.util import find_spec

from sleipnir.worker.llm.client import NotCalled


def is_installed() -> bool:
    """Whether it can be imported; that takes seconds, this does not."""
    return find_spec("litellm") is not None


def require_litellm(model: str) -> None:
    """Check that a model that is asked by way of it can be asked.

    Raises:
        NotCalled: it is not installed.
    """
    if not is_installed():
        raise NotCalled(
            f"{model} is asked by way of litellm, which is not installed where the workers run; "
            "install it there (pip install litellm), or give the model's provider an api_base "
            "that speaks OpenAI's protocol"
        )
