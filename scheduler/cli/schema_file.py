"""The JSON Schema files of an agent's YAML files, and the references to them in these files."""

from __future__ import annotations

import json
from pathlib import PurePath

from sleipnir.lazy import lazy_imports

# They import pydantic, which help does not need.
with lazy_imports():
    from sleipnir.graphs import json_schema
    from sleipnir.scheduler.testing import file_schemas

KINDS = ("graph", "config", "tests", "eval")


def schema_text(kind: str = "graph") -> str:
    """Return the text of the schema file for files of a kind, one of `KINDS`."""
    match kind:
        case "config":
            schema = json_schema.config_schema()
        case "tests":
            schema = file_schemas.tests_schema()
        case "eval":
            schema = file_schemas.evaluation_schema()
        case _:
            schema = json_schema.json_schema()
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def kind_of(file: PurePath) -> str | None:
    """Return the kind of a file by its place in an agent's directory; None if it has no schema."""
    match file.parts:
        case ("graph.yaml",):
            return "graph"
        case ("config.yaml",):
            return "config"
        case ("tests", name) if name.endswith(".yaml"):
            return "tests"
        case ("evals", name) if name.endswith(".yaml"):
            return "eval"
    return None


def modeline(schema_file: str) -> str:
    """Return the comment by which editors find the schema of a YAML file."""
    return f"# yaml-language-server: $schema={schema_file}"
