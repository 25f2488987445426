"""The JSON Schema of graph.yaml as a file, and how a graph.yaml names it."""

from __future__ import annotations

import json

from sleipnir.lazy import lazy_imports

# pydantic comes with it, which help does without.
with lazy_imports():
    from sleipnir.graphs import json_schema


def schema_text() -> str:
    """Return the schema as a file holds it."""
    return json.dumps(json_schema.json_schema(), indent=2, ensure_ascii=False) + "\n"


def modeline(schema_file: str) -> str:
    """Return the comment by which editors find a YAML file's schema."""
    return f"# yaml-language-server: $schema={schema_file}"
