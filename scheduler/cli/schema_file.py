"""The JSON Schema file of graph.yaml, and the reference to it in a graph.yaml."""

from __future__ import annotations

import json

from sleipnir.lazy import lazy_imports

# It imports pydantic, which help does not need.
with lazy_imports():
    from sleipnir.graphs import json_schema


def schema_text() -> str:
    """Return the text of the schema file."""
    return json.dumps(json_schema.json_schema(), indent=2, ensure_ascii=False) + "\n"


def modeline(schema_file: str) -> str:
    """Return the comment by which editors find the schema of a YAML file."""
    return f"# yaml-language-server: $schema={schema_file}"
