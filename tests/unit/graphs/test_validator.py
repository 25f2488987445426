"""What the cases of the language cannot show: size, order, and the walks over edges."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleipnir.graphs.document.finding import MAX_LISTED, Finding, folded, listing
from sleipnir.graphs.document.loader import load_agent
from sleipnir.graphs.document.references import AgentSearch
from sleipnir.graphs.edges import cycles, reachable
from sleipnir.graphs.files import inside
from sleipnir.graphs.validator import Resources, validate
from sleipnir.graphs.validator.context import MAX_HINTS, near_names

SIZE = 5_000
HEAD = "name: agent\nmodel: openai:gpt-5\nstart: n0\nnodes:\n"
SCRIPT = "type: script, script: s.py"


def findings_of(text: str, tmp_path: Path) -> tuple[Finding, ...]:
    directory = tmp_path / "agent"
    directory.mkdir()
    (directory / "s.py").write_text("")
    (directory / "graph.yaml").write_text(text)
    return validate(load_agent(directory), Resources(AgentSearch((tmp_path,))))


def chain() -> str:
    nodes = [f"  n{i}: {{{SCRIPT}, next: n{i + 1}}}\n" for i in range(SIZE)]
    return "".join([HEAD, *nodes, f"  n{SIZE}: {{type: end}}\n"])


def ring() -> str:
    nodes = [f"  n{i}: {{{SCRIPT}, next: n{(i + 1) % SIZE}}}\n" for i in range(SIZE)]
    return "".join([HEAD, *nodes, "  z: {type: end}\n"])


def fan() -> str:
    targets = ", ".join(f"n{i}" for i in range(1, SIZE))
    llm = "type: llm, prompt: '{{k}}', state_updates: {k: x}, next: z"
    nodes = [f"  n{i}: {{{llm}}}\n" for i in range(1, SIZE)]
    return "".join([HEAD, f"  n0: {{{SCRIPT}, next: [{targets}]}}\n", *nodes, "  z: {type: end}\n"])


def loose_ends() -> str:
    nodes = [f"  n{i}: {{{SCRIPT}, next: m{i}}}\n" for i in range(SIZE)]
    return "".join([HEAD, *nodes, "  z: {type: end}\n"])


# A limit in seconds that only more than linear growth would reach.
@pytest.mark.timeout(40)
@pytest.mark.parametrize(
    ("graph", "codes"),
    [
        (chain, set()),
        (ring, {"E102", "W001", "W002"}),
        (fan, {"E301", "E303", "E307"}),
        (loose_ends, {"E101", "W001", "W002"}),
    ],
)
def test_thousands_of_nodes_are_validated_in_seconds(
    graph: Callable[[], str], codes: set[str], tmp_path: Path
) -> None:
    found = findings_of(graph(), tmp_path)

    assert {finding.code for finding in found} == codes


def test_findings_of_loading_and_validation_are_in_file_order(tmp_path: Path) -> None:
    text = "start: a\nnodes:\n  a: {type: end, next: b, x: 1}\nname: other\n"

    found = findings_of(text, tmp_path)

    assert [(finding.line, finding.code) for finding in found] == [
        (3, "E101"),
        (3, "W006"),
        (3, "E006"),
        (4, "W013"),
    ]


def test_cycles_are_the_shortest_of_each_component() -> None:
    adjacency = {"a": ["b"], "b": ["c"], "c": ["a", "b"], "d": ["d", "a"], "e": ["d"]}

    assert list(cycles(adjacency)) == [["d", "d"], ["a", "b", "c", "a"]]


@given(
    st.dictionaries(
        st.integers(0, 7), st.lists(st.integers(0, 7), max_size=3), min_size=1, max_size=8
    )
)
def test_a_node_is_on_a_cycle_exactly_if_its_component_has_one(
    drawn: dict[int, list[int]],
) -> None:
    adjacency = {
        str(node): [str(target) for target in targets if target in drawn]
        for node, targets in drawn.items()
    }
    reaches = {node: reachable(adjacency[node], adjacency) for node in adjacency}

    found = list(cycles(adjacency))

    for cycle in found:
        assert cycle[0] == cycle[-1]
        assert all(target in adjacency[node] for node, target in pairwise(cycle))
    on_a_cycle = {node for node in adjacency if node in reaches[node]}
    components = {frozenset({n} | {m for m in reaches[n] if n in reaches[m]}) for n in on_a_cycle}
    assert {part for part in components for cycle in found if cycle[0] in part} == components
    assert len(found) == len(components)


def test_hints_are_not_looked_for_by_the_thousand() -> None:
    unknown = [f"nam{i}" for i in range(MAX_HINTS + 1)]

    assert near_names(unknown, {"name"}) == {}
    assert near_names(unknown[:1], {"name"}) == {"nam0": "did you mean 'name'?"}


def test_very_long_lists_are_cut_in_the_middle() -> None:
    names = [str(i) for i in range(MAX_LISTED + 5)]

    listed = listing(names, " -> ")

    assert listed.startswith("0 -> 1 -> ")
    assert listed.endswith(f"18 -> … -> {names[-1]}")


def test_of_many_nodes_and_fields_one_line_is_told(tmp_path: Path) -> None:
    ends = "\n".join(f"  e{i}: {{type: end}}" for i in range(3))
    graph = f"memory: x\nenabled_macros: []\n{HEAD}  n0: {{{SCRIPT}}}\n{ends}\n"

    found = findings_of(graph, tmp_path)
    told = folded(found)

    assert [finding.code for finding in found] == ["W011"] * 2 + ["W002"] + ["W001"] * 3
    assert [(finding.line, finding.node, finding.message) for finding in told] == [
        (1, None, "2 fields have no effect here: graph.memory, graph.enabled_macros"),
        (5, None, told[1].message),
        (8, None, "3 nodes are reached only by a script's `_next`: e0, e1, e2"),
    ]
    assert folded(found[-1:]) == [found[-1]]


def test_fields_of_a_normal_agent_without_effect_are_named_in_one_line(tmp_path: Path) -> None:
    directory = tmp_path / "agent"
    directory.mkdir()
    (directory / "config.yaml").write_text("hooks: {}\nmemory: [1]\nenabled_tools: fs_read\n")

    (told,) = folded(validate(load_agent(directory), Resources(AgentSearch((tmp_path,)))))

    assert told.message == (
        "3 fields have no effect here: config.hooks, config.memory, config.enabled_tools"
    )
    assert told.hint == "global_tools is what gives an agent tools"


@pytest.mark.parametrize("path", ["..", "../a", "a/../../b", "/etc", "out/x", "loop/../..", "n\0"])
def test_paths_that_leave_the_directory_lead_nowhere(path: str, tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "out").symlink_to("..")
    (tmp_path / "agent" / "loop").symlink_to("loop")

    assert inside(tmp_path / "agent", path) is None


def test_paths_that_stay_lead_to_their_target(tmp_path: Path) -> None:
    directory = (tmp_path / "agent").resolve()
    directory.mkdir()
    (directory / "link").symlink_to("real")

    assert inside(directory, "./a/../b") == directory / "b"
    assert inside(directory, "link/x") == directory / "real" / "x"
    assert inside(directory, ".") == directory
