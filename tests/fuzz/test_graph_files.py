"""Graph files: whatever stands in one, it is loaded and checked, or refused in its own words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from sleipnir.graphs.bundles.parsed import parsed_text
from sleipnir.graphs.document.loader import load_agent
from sleipnir.graphs.document.references import AgentSearch
from sleipnir.graphs.drawing.dot import to_dot
from sleipnir.graphs.drawing.mermaid import to_mermaid
from sleipnir.graphs.drawing.outline import outline_of
from sleipnir.graphs.errors import InvalidAgent
from sleipnir.graphs.schema import NODE_TYPES
from sleipnir.graphs.validator import Resources, validate
from tests.support.fuzzing import (
    EXAMPLES,
    assert_one_line,
    fuzz,
    mutated,
    objects,
    rarely,
    texts,
    values,
)

IDS = ["a", "b", "c", "z"]
SCRIPT = {"type": "script", "script": "s.sh", "next": "z"}
SOUND: dict[str, Any] = {
    "name": "fuzzed",
    "start": "a",
    "variables": [{"name": "who", "default": "me", "description": "d"}],
    "settings": {"timeout": 60, "max_concurrency": 2},
    "reducers": {"seen": "append"},
    "initial_state": {"x": [1, 2]},
    "nodes": {
        "a": {**SCRIPT, "next": ["b", "c"]},
        "b": {**SCRIPT, "fallback": "z", "state_updates": {"seen": "{{who}} {{output}}"}},
        "c": {
            "type": "map",
            "over": "{{x}}",
            "as": "i",
            "branch": "d",
            "collect_into": "y",
            "next": "z",
        },
        "d": {"type": "script", "script": "s.sh"},
        "z": {"type": "end", "output": "{{x}} {{y}}"},
    },
}
TEXT = yaml.safe_dump(SOUND, sort_keys=False)


def references() -> SearchStrategy[Any]:
    return st.sampled_from(IDS) | st.lists(st.sampled_from(IDS), max_size=3)


def templates() -> SearchStrategy[str]:
    return st.sampled_from(["", "{{x}}", "{{a.b.c}}", "{{ x[0] }}", "{{x", "text", "{{initial}}"])


def nodes() -> SearchStrategy[dict[str, Any]]:
    fields = {
        "type": st.sampled_from([*NODE_TYPES, "none"]),
        "next": references(),
        "script": st.sampled_from(["s.sh", "../s.sh", "/etc/passwd", "gone.sh", "s.exe"]),
        "prompt": templates(),
        "instructions": templates(),
        "output": templates(),
        "state_updates": st.dictionaries(texts(), templates(), max_size=3),
        "agent": st.sampled_from(["fuzzed", "other", "./agents/x", "../x"]),
        "over": templates(),
        "as": st.sampled_from(["item", "x.y", ""]),
        "branch": st.sampled_from(IDS),
        "collect_into": st.sampled_from(["y", "", "a.b"]),
        "question": templates(),
        "options": st.lists(texts(), max_size=3),
        "routes": st.dictionaries(texts(), st.sampled_from(IDS), max_size=3),
        "on_other": st.sampled_from(IDS),
        "validation": st.sampled_from(["len(input) > 3", "len(input) == " + "9" * 5_000, "x"]),
        "output_schema": st.sampled_from([{"type": "object"}, {"$ref": "#"}, {"pattern": "("}]),
        "tools": st.lists(texts(), max_size=3),
        "timeout": st.sampled_from([1, 0, -1, "1"]),
    }
    return objects(**fields)


def graphs() -> SearchStrategy[dict[str, Any]]:
    return objects(
        name="fuzzed",
        model=st.sampled_from(["openai:m", "x", ":", "openai:"]),
        start=st.sampled_from(IDS),
        version=st.sampled_from(["1.0", 1.0, "2"]),
        settings=objects(timeout=5, max_concurrency=3, max_loop_iterations=4),
        variables=st.lists(objects(name="who", default="me", description=""), max_size=2),
        reducers=st.dictionaries(texts(), st.sampled_from(["append", "sum"]), max_size=2),
        nodes=st.dictionaries(st.sampled_from(IDS) | texts(), rarely(nodes()), max_size=4),
        mcp_servers=st.lists(texts(), max_size=2),
        global_tools=st.lists(texts(), max_size=2),
    )


def files() -> SearchStrategy[bytes]:
    """A sound file with a piece replaced; one made of odd values; anything."""
    positions = st.integers(0, len(TEXT))
    spliced = st.tuples(positions, positions, texts()).map(
        lambda cut: (TEXT[: cut[0]] + cut[2] + TEXT[cut[1] :]).encode(errors="surrogatepass")
    )
    made = rarely(graphs()).map(lambda graph: json.dumps(graph).encode())
    changed = mutated(SOUND).map(lambda graph: json.dumps(graph).encode())
    return changed | spliced | made | st.binary(max_size=200) | texts().map(_encoded)


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


@EXAMPLES
def test_a_file_is_a_graph_or_is_refused(examples: int, tmp_path: Path) -> None:
    directory = tmp_path / "fuzzed"
    directory.mkdir()
    (directory / "s.sh").write_text("echo '{}'")
    resources = Resources(AgentSearch((tmp_path,)))

    def check(content: bytes) -> None:
        (directory / "graph.yaml").write_bytes(content)
        try:
            agent = load_agent(directory)
            findings = validate(agent, resources)
        except InvalidAgent as error:
            findings = error.findings
        else:
            if agent.graph is not None:
                to_mermaid(outline_of(agent.graph))
                to_dot(outline_of(agent.graph))
        for finding in findings:
            assert_one_line(finding.message)
            json.dumps(finding.to_json()).encode()
            str(finding).encode(errors="surrogateescape")

    fuzz(examples, files(), check)


@EXAMPLES
def test_values_of_a_file_can_be_stored(examples: int, tmp_path: Path) -> None:
    """A run's state and a bundle hold what the file says."""
    directory = tmp_path / "fuzzed"
    directory.mkdir()

    def check(default: Any) -> None:
        graph = {"start": "z", "nodes": {"z": {"type": "end", "output": default}}}
        (directory / "graph.yaml").write_text(json.dumps(graph))
        try:
            agent = load_agent(directory)
        except InvalidAgent as error:
            assert_one_line(error.findings[0].message)
            return
        if agent.graph is not None:
            parsed_text(agent.graph)

    fuzz(examples, values(), check)
