"""Agents with knowledge bases, with embeddings and with keywords only."""

from __future__ import annotations

from tests.support.model_server import ModelServer, says

# Each text is similar to prompts with its letter, by the embeddings of the model server.
BY_MEANING = """
start: look_up
nodes:
  look_up:
    type: rag
    documents: [docs]
    embedding_model: openai:text-embedding-3-small
    chunk_size: 200
    chunk_overlap: 0
    batch_size: 2
    top_k: 2
    state_updates: {sources: "{{output.sources}}"}
    next: z
  z: {type: end, output: "{{sources}}"}
"""
LETTERS = {f"docs/{letter}.md": f"{letter} " + letter * 9 for letter in "abcdef"}

BY_WORDS = """
start: look_up
nodes:
  look_up:
    type: rag
    documents: [docs]
    embedding_model: none
    state_updates: {sources: "{{output.sources}}"}
    next: z
  z: {type: end}
"""
PETS = {"docs/cats.md": "Cats sleep all day.", "docs/dogs.md": "Dogs bark."}


def embedding(server: ModelServer) -> ModelServer:
    """Script the server to answer every request for embeddings, and return it."""
    server.when(lambda request: request.path.endswith("/embeddings"), says(""))
    return server


def texts_asked(server: ModelServer) -> list[str]:
    """Return the texts whose embeddings were requested."""
    return [text for request in server.requests for text in request.body["input"]]
