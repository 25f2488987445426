"""Builds as much of an agent as its document allows, and reports what is wrong with the rest."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import Any, TypeVar, get_args

from sleipnir.graphs.document.conditions import read_next, read_values
from sleipnir.graphs.document.document import Document, KeyPath, wrong_value
from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.document.llm_parts import read_llm_parts
from sleipnir.graphs.document.params import read_params
from sleipnir.graphs.document.shape import near, shape
from sleipnir.graphs.normal_agent import WITHOUT_EFFECT, NormalAgent
from sleipnir.graphs.schema import (
    NODE_TYPES,
    BaseNode,
    FormField,
    Graph,
    GraphSettings,
    InputNode,
    LlmNode,
    RagNode,
    ReducerName,
    Section,
    SetNode,
    Variable,
)

MAX_NODE_ID_CHARS = 128
FORM = Graph.name_in_files("form")

S = TypeVar("S", bound=Section)


class Reading:
    """One pass over a document; afterwards `findings` and `broken_nodes` are complete."""

    def __init__(self, document: Document, directory_name: str) -> None:
        self.findings: list[Finding] = []
        self.broken_nodes: set[str] = set()
        self._document = document
        self._data = document.data
        self._directory_name = directory_name

    def graph(self) -> Graph | None:
        """Return the graph without its broken parts; None if there are no usable nodes."""
        ready = {
            **self._name(),
            **self._version(),
            **self._settings(),
            **self._variables(),
            **self._form(),
            **self._nodes(),
            **read_params(self._document, ("params",), self.findings.append),
        }
        unknown_reducers = self._unknown_reducers()
        if unknown_reducers:
            ready["reducers"] = {
                key: name
                for key, name in self._data["reducers"].items()
                if key not in unknown_reducers
            }
        self._check_start()
        graph = self._shape(
            Graph, (), ready=ready, fallback={"name": self._directory_name, "start": ""}
        )
        if graph and unknown_reducers:
            # Kept: in a graph that runs without validation, the first write to their keys fails.
            graph = replace(graph, reducers={**graph.reducers, **unknown_reducers})
        return graph if self._data.get("nodes") else None

    def normal_agent(self) -> NormalAgent | None:
        """Return the content of a `config.yaml` without its broken parts."""
        for name, hint in WITHOUT_EFFECT.items():
            if self._data.get(name) is not None:
                subject = f"config.{name}"
                message = f"{subject} has no effect here"
                found = self._document.finding("W011", message, name, hint=hint)
                self.findings.append(replace(found, subject=subject))
        return self._shape(
            NormalAgent, (), ready={**self._variables(), **self._form(), **self._own_version()}
        )

    def _report(self, code: str, message: str, *path: str | int, hint: str | None = None) -> None:
        self.findings.append(self._document.finding(code, message, *path, hint=hint))

    def _wrong_value(self, expected: str, *path: str | int) -> None:
        part = self._document.at(*path)
        assert part is not None, "callers look before they ask"
        if not part.refused:
            message = wrong_value(path, self._document.file.stem, expected, part)
            self._report("E008", message, *path)

    def _shape(
        self,
        section: type[S],
        path: KeyPath,
        *,
        ready: dict[str, Any] | None = None,
        fallback: dict[str, Any] | None = None,
    ) -> S | None:
        part = self._document.at(*path)
        if part is None or not isinstance(part.value, dict):
            self._wrong_value("a mapping", *path)
            return None
        shaped, findings = shape(section, self._document, path, ready=ready, fallback=fallback)
        self.findings += findings
        return shaped

    def _name(self) -> dict[str, Any]:
        name = self._data.get("name")
        if not isinstance(name, str) or name.strip():
            return {}
        self._report("E010", "'name' must not be empty", "name")
        return {"name": self._directory_name}

    def _version(self) -> dict[str, Any]:
        version = self._data.get("version")
        unquoted = isinstance(version, float) and version == 1.0
        if version not in (None, "1.0") and not unquoted:
            message = f"version '{self._written('version')}' is not supported; use \"1.0\""
            self._report("E009", message, "version")
        return {"version": "1.0"}

    def _own_version(self) -> dict[str, Any]:
        """Keep a normal agent's version, any scalar, as text."""
        if isinstance(self._data.get("version"), bool | int | float):
            return {"version": self._written("version")}
        return {}

    def _written(self, field: str) -> str:
        """Return a top-level scalar as written in the file; for a container, its type."""
        part = self._document.at(field)
        assert part is not None, "callers look before they ask"
        return part.source or (part.value if isinstance(part.value, str) else str(part))

    def _settings(self) -> dict[str, Any]:
        if self._data.get("settings") is None:
            return {}
        settings = self._shape(GraphSettings, ("settings",))
        return {"settings": settings or GraphSettings()}

    def _variables(self) -> dict[str, Any]:
        variables = self._data.get("variables")
        if not isinstance(variables, list):
            return {}
        shaped = [
            self._shape(Variable, ("variables", index), fallback={"description": ""})
            for index in range(len(variables))
        ]
        return {"variables": [variable for variable in shaped if variable]}

    def _form(self) -> dict[str, Any]:
        form = self._data.get(FORM)
        if not isinstance(form, dict):
            return {}
        shaped = {name: self._shape(FormField, (FORM, name)) for name in form}
        return {FORM: {name: each for name, each in shaped.items() if each}}

    def _unknown_reducers(self) -> dict[str, Any]:
        reducers = self._data.get("reducers")
        if not isinstance(reducers, dict):
            return {}
        names = get_args(ReducerName)
        # `shape` reports values that are not strings.
        unknown = {k: v for k, v in reducers.items() if isinstance(v, str) and v not in names}
        for key, name in unknown.items():
            message = f"unknown reducer '{name}' for key '{key}'"
            self._report("E306", message, "reducers", key, hint=f"one of {', '.join(names)}")
        return unknown

    def _check_start(self) -> None:
        start, nodes = self._data.get("start"), self._data.get("nodes")
        if isinstance(start, str) and isinstance(nodes, dict) and start not in nodes:
            message = f"start node '{start}' does not exist"
            self._report("E015", message, "start", hint=near(start, nodes))

    def _nodes(self) -> dict[str, Any]:
        nodes = self._data.get("nodes")
        if not isinstance(nodes, dict):
            return {}
        if not nodes:
            self._report("E011", "'nodes' is empty", "nodes")
        built = {key: self._node(key) for key in nodes}
        self.broken_nodes = {key for key, node in built.items() if node is None}
        return {"nodes": {key: node for key, node in built.items() if node is not None}}

    def _node(self, key: str) -> BaseNode | None:
        if why := _unusable_as_id(key):
            message = f"'{key}' is not usable as a node id: {why}"
            self._report("E014", message, "nodes", key)
        path = ("nodes", key)
        section = self._node_type(key)
        if section is None:
            return None
        self._check_id(key)
        ready = {"id": key, **read_next(self._document, (*path, "next"), self.findings.append)}
        if section is SetNode:
            ready |= read_values(self._document, (*path, "values"), self.findings.append)
        if section is LlmNode:
            ready |= read_llm_parts(self._document, path, self.findings.append)
        if section is InputNode and self._data["nodes"][key].get(FORM) is not None:
            ready[FORM] = self._shape(FormField, (*path, FORM))
        if section is RagNode:
            return self._rag_node(key, ready)
        return self._shape(section, path, ready=ready)

    def _node_type(self, key: str) -> type[BaseNode] | None:
        """Return the class of a node; None, with a finding, if it is unknown."""
        node = self._data["nodes"][key]
        if not isinstance(node, dict):
            self._wrong_value("a mapping", "nodes", key)
            return None
        kind = node.get("type")
        if kind is None:
            hint = f"one of {', '.join(NODE_TYPES)}"
            self._report("E007", f"node '{key}': 'type' is required", "nodes", key, hint=hint)
        elif not isinstance(kind, str):
            self._wrong_value("a string", "nodes", key, "type")
        elif kind not in NODE_TYPES:
            hint = near(kind, NODE_TYPES) or f"one of {', '.join(NODE_TYPES)}"
            message = f"node '{key}': unknown type '{kind}'"
            self._report("E012", message, "nodes", key, "type", hint=hint)
        else:
            return NODE_TYPES[kind]
        return None

    def _check_id(self, key: str) -> None:
        given = self._data["nodes"][key].get("id")
        if given is None or given == key:
            return
        if isinstance(given, str):
            self._report("E013", f"node '{key}': its id says '{given}'", "nodes", key, "id")
        else:
            self._wrong_value("a string", "nodes", key, "id")

    def _rag_node(self, key: str, ready: dict[str, Any]) -> RagNode | None:
        if self._data["nodes"][key].get("documents") in (None, []):
            message = f"rag node '{key}': 'documents' needs at least one source"
            self._report("E206", message, "nodes", key, "documents")
            ready["documents"] = []
        node = self._shape(RagNode, ("nodes", key), ready=ready, fallback={"documents": []})
        if node is None or node.chunk_size is None or node.chunk_overlap is None:
            return node
        if node.chunk_overlap < node.chunk_size:
            return node
        expected = f"less than chunk_size ({node.chunk_size})"
        self._wrong_value(expected, "nodes", key, "chunk_overlap")
        return replace(node, chunk_overlap=None)


def _unusable_as_id(key: str) -> str | None:
    """Return why a key cannot be a node id; None if it can."""
    if not key:
        return "it is empty"
    if len(key) > MAX_NODE_ID_CHARS:
        return f"it is longer than {MAX_NODE_ID_CHARS} characters"
    if key.startswith("."):
        return "it begins with '.'"
    if "/" in key or "\\" in key:
        return "it contains a slash"
    if any(character.isspace() for character in key):
        return "it contains a space"
    if any(unicodedata.category(character) == "Cc" for character in key):
        return "it contains a control character"
    return None
