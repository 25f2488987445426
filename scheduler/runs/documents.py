"""The JSON of what runs record: usage, failures, guarded calls. Imported for types only."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict


def about(text: str) -> Any:
    """Say what a field means, for the documentation."""
    return Field(description=text)


Tried = TypedDict("Tried", {"try": int})  # a keyword cannot be a field of a class


class UsageDocument(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cached_tokens: int
    cost_usd: Annotated[float | None, about("null: a price is not known")]


class FailureDocument(TypedDict):
    code: str
    message: str
    node: str | None


class NodeFailureDocument(FailureDocument):
    step: int
    index: Annotated[int | None, about("of an item of a map")]


class GuardedCallDocument(TypedDict):
    function: str
    arguments: Annotated[dict[str, Any], about("with secrets masked")]
