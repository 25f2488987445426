"""Checks for litellm, which may be missing where all models are called directly."""

from __future__ import annotations

from importlib.util import find_spec

from sleipnir.worker.llm.client import NotCalled


def is_installed() -> bool:
    """Return whether litellm can be imported, without importing it, which takes seconds."""
    return find_spec("litellm") is not None


def require_litellm(model: str) -> None:
    """Check that a model that needs litellm can be called.

    Raises:
        NotCalled: litellm is not installed.
    """
    if not is_installed():
        raise NotCalled(
            f"{model} is asked by way of litellm, which is not installed where the workers run; "
            "install it there (pip install litellm), or give the model's provider an api_base "
            "that speaks OpenAI's protocol"
        )
