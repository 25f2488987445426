"""From agent directory to graph: the errors of loading, and what is left without them."""

from pathlib import Path
from textwrap import dedent

import pytest

from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.document.loader import Agent, load_agent
from sleipnir.graphs.errors import InvalidAgent
from sleipnir.graphs.schema import LlmNode, MapNode, RagNode, ScriptNode

END = "\nnodes:\n  e: {type: end}\n"


def load(tmp_path: Path, text: str, file: str = "graph.yaml") -> Agent:
    directory = tmp_path / "demo"
    directory.mkdir(exist_ok=True)
    (directory / file).write_text(dedent(text))
    return load_agent(directory)


def with_nodes(tmp_path: Path, nodes: str) -> Agent:
    """A graph whose nodes are the given lines and an end node `e`."""
    lines = "".join(f"  {line}\n" for line in dedent(nodes).strip().splitlines())
    return load(tmp_path, f"name: demo\nstart: e\nnodes:\n  e: {{type: end}}\n{lines}")


def said(agent: Agent) -> list[str]:
    return [f"{finding.code} {finding.message}" for finding in agent.findings]


def only(agent: Agent) -> Finding:
    (finding,) = agent.findings
    return finding


def test_a_graph_agent_is_loaded_with_its_name_and_place(tmp_path: Path) -> None:
    agent = load(tmp_path, f"name: demo\nversion: 1.0\nstart: e{END}")

    assert agent.findings == ()
    assert agent.is_graph
    assert agent.name == "demo"
    assert agent.directory == (tmp_path / "demo").resolve()
    assert agent.graph is not None
    assert agent.graph.nodes["e"].id == "e"


def test_the_file_itself_may_be_named(tmp_path: Path) -> None:
    by_directory = load(tmp_path, f"name: demo\nstart: e{END}")

    assert load_agent(tmp_path / "demo" / "graph.yaml") == by_directory


def test_a_link_to_an_agent_has_the_name_of_the_link(tmp_path: Path) -> None:
    load(tmp_path, f"name: demo\nstart: e{END}")
    (tmp_path / "other").symlink_to("demo")

    agent = load_agent(tmp_path / "other")

    assert agent.name == "other"
    assert agent.directory.name == "demo"


@pytest.mark.parametrize(
    ("files", "code", "words", "hint"),
    [
        (["graph.yaml", "config.yaml"], "E001", "holds both config.yaml and graph.yaml", None),
        ([], "E002", "holds neither config.yaml nor graph.yaml", None),
        (["graph.yml"], "E002", "holds neither", "rename graph.yml to graph.yaml"),
        (["config.yml"], "E002", "holds neither", "rename config.yml to config.yaml"),
    ],
)
def test_there_must_be_exactly_one_agent_file(
    tmp_path: Path, files: list[str], code: str, words: str, hint: str | None
) -> None:
    for file in files:
        (tmp_path / file).touch()

    with pytest.raises(InvalidAgent) as caught:
        load_agent(tmp_path)

    (finding,) = caught.value.findings
    assert (finding.code, finding.hint) == (code, hint)
    assert words in finding.message


def test_what_is_no_yaml_stops_loading(tmp_path: Path) -> None:
    with pytest.raises(InvalidAgent) as caught:
        load(tmp_path, "name: [")

    assert [finding.code for finding in caught.value.findings] == ["E003"]


def test_errors_of_yaml_and_of_fields_come_together_in_file_order(tmp_path: Path) -> None:
    agent = load(tmp_path, f"name: demo\nname: demo\nstart: e\nzzz: !own 1\nmodel: 5{END}")

    assert [(f.code, f.line) for f in agent.findings] == [
        ("E004", 2),
        ("E006", 4),
        ("E005", 4),
        ("E008", 5),
    ]


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        ("descripton: x", "did you mean 'description'?"),
        ("documents: [a]", "use a 'rag' node"),
        ("agent_session: x", "leave it out: graph agents have no sessions"),
        ("prompt: x", "'prompt' belongs on a node"),
        ("instructions: x", "'instructions' belongs on an llm node"),
        ("qqqq: x", None),
    ],
)
def test_an_unknown_field_comes_with_what_to_do(
    tmp_path: Path, field: str, hint: str | None
) -> None:
    finding = only(load(tmp_path, f"name: demo\n{field}\nstart: e{END}"))

    assert finding.code == "E006"
    assert finding.message == f"unknown field '{field.split(':')[0]}' in graph"
    assert finding.hint == hint
    assert (finding.line, finding.column) == (2, 1)


def test_unknown_fields_are_found_in_every_section(tmp_path: Path) -> None:
    agent = load(
        tmp_path,
        """
        name: demo
        start: e
        settings: {timout: 5}
        variables: [{name: a, description: d, secrets: true}]
        nodes:
          e: {type: end, fallback: e}
        """,
    )

    assert [(finding.message, finding.hint) for finding in agent.findings] == [
        ("unknown field 'timout' in settings", "did you mean 'timeout'?"),
        ("unknown field 'secrets' in variables[0]", "did you mean 'secret'?"),
        (
            "unknown field 'fallback' in node 'e'",
            "'fallback' is a field of llm, agent and script nodes",
        ),
    ]


def test_notes_are_ignored_except_in_free_maps(tmp_path: Path) -> None:
    agent = load(
        tmp_path,
        """
        name: demo
        x-owner: me
        start: x-end
        initial_state: {x-key: 1}
        settings: {x-why: slow}
        nodes:
          x-end: {type: end, x-pos: [1, 2], state_updates: {x-out: a}}
        """,
    )

    assert agent.findings == ()
    assert agent.graph is not None
    assert agent.graph.initial_state == {"x-key": 1}
    assert agent.graph.nodes["x-end"].state_updates == {"x-out": "a"}  # type: ignore[union-attr]


def test_required_fields_are_asked_for_where_they_belong(tmp_path: Path) -> None:
    agent = load(tmp_path, "variables: [{name: a}]\nnodes:\n  a: {type: llm}\n  b: {}\n")

    assert said(agent) == [
        "E007 graph: 'name' is required",
        "E007 graph: 'start' is required",
        "E007 variables[0]: 'description' is required",
        "E007 node 'a': 'prompt' is required",
        "E007 node 'b': 'type' is required",
    ]
    assert agent.broken_nodes == {"a", "b"}


def test_null_on_an_optional_field_means_not_given(tmp_path: Path) -> None:
    agent = load(
        tmp_path,
        """
        name: demo
        description:
        version: ~
        settings: null
        variables:
        start: e
        nodes:
          e: {type: end, id: null, output: , state_updates: null}
          l: {type: llm, prompt: p, max_attempts: null}
        """,
    )

    assert agent.findings == ()
    assert agent.graph is not None
    assert agent.graph.settings.max_concurrency == 8
    assert agent.graph.attempts_of(agent.graph.nodes["l"]) == 1


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("prompt: 5", "prompt: expected a string, got 5 (quote it)"),
        ("prompt: 1.10", "prompt: expected a string, got 1.10 (quote it)"),
        ("prompt: True", "prompt: expected a string, got True (quote it)"),
        ("prompt: null", "prompt: expected a string, got null (quote it)"),
        ("prompt:", "prompt: expected a string, got nothing"),
        ("prompt: [a]", "prompt: expected a string, got a list"),
        ("tools: web", 'tools: expected a list, got the text "web"'),
        ("tools: [a, 5]", "tools[1]: expected a string, got 5 (quote it)"),
        ("next: 5", "next: expected a string or a list, got 5 (quote it)"),
        ("next: [e, 5]", "next[1]: expected a string, got 5 (quote it)"),
        ("state_updates: {k: 5}", "state_updates.k: expected a string, got 5 (quote it)"),
        ("state_updates: [k]", "state_updates: expected a mapping, got a list"),
        ('timeout: "5"', 'timeout: expected a number, got the text "5"'),
        ("timeout: -1", "timeout: expected at least 0, got -1"),
        ("timeout: true", "timeout: expected a number, got true"),
        ("temperature: -0.1", "temperature: expected at least 0, got -0.1"),
        ("max_attempts: 1.0", "max_attempts: expected an integer, got 1.0"),
        ("max_attempts: 0", "max_attempts: expected at least 1, got 0"),
    ],
)
def test_a_wrong_value_is_described_in_words(tmp_path: Path, field: str, message: str) -> None:
    prompt = "" if field.startswith("prompt") else "  prompt: p\n"
    agent = with_nodes(tmp_path, f"n:\n  type: llm\n{prompt}  {field}\n")

    finding = only(agent)

    assert (finding.code, finding.node) == ("E008", "n")
    assert finding.message == f"node 'n'.{message}"


def test_top_level_values_are_those_of_the_graph(tmp_path: Path) -> None:
    agent = load(tmp_path, f"name: demo\nstart: e\nmodel: 5\nreducers: [a]\nsettings: 3{END}")

    assert said(agent) == [
        "E008 graph.model: expected a string, got 5 (quote it)",
        "E008 graph.reducers: expected a mapping, got a list",
        "E008 graph.settings: expected a mapping, got 3",
    ]
    assert agent.graph is not None


def test_a_value_refused_by_yaml_is_not_reported_again(tmp_path: Path) -> None:
    agent = with_nodes(
        tmp_path, "n: {type: llm, prompt: .inf, tools: [.nan], timeout: 1e999}\nm: .nan"
    )

    assert [finding.message.split(":")[0] for finding in agent.findings] == [
        "node 'n'.prompt",
        "node 'n'.tools[0]",
        "node 'n'.timeout",
        "graph.nodes.m",
    ]


def test_broken_optional_fields_are_left_out(tmp_path: Path) -> None:
    agent = with_nodes(tmp_path, "n: {type: script, script: a.sh, timeout: x, zzz: 1, next: e}")

    assert agent.graph is not None
    assert agent.graph.nodes["n"] == ScriptNode(id="n", script="a.sh", next="e")
    assert agent.broken_nodes == frozenset()


def test_where_only_quotes_are_missing_the_text_is_kept(tmp_path: Path) -> None:
    agent = with_nodes(tmp_path, "1: {type: llm, prompt: 1.10, next: [1, 0x2], tools: [null, '']}")

    assert agent.graph is not None
    assert agent.graph.nodes["1"] == LlmNode(
        id="1", prompt="1.10", next=["1", "0x2"], tools=["null", ""]
    )


@pytest.mark.parametrize("version", ["1.0", "'1.0'", '"1.0"', "1.00"])
def test_the_version_may_be_unquoted(tmp_path: Path, version: str) -> None:
    assert load(tmp_path, f"name: demo\nversion: {version}\nstart: e{END}").findings == ()


@pytest.mark.parametrize(
    ("version", "shown"),
    [("1.1", "1.1"), ("1", "1"), ('"2"', "2"), ("true", "true"), ("[1]", "a list")],
)
def test_other_versions_are_refused(tmp_path: Path, version: str, shown: str) -> None:
    finding = only(load(tmp_path, f"name: demo\nversion: {version}\nstart: e{END}"))

    assert finding.code == "E009"
    assert finding.message == f"version '{shown}' is not supported; use \"1.0\""


def test_the_name_must_not_be_empty(tmp_path: Path) -> None:
    agent = load(tmp_path, f'name: ""\nstart: e{END}')

    assert said(agent) == ["E010 'name' must not be empty"]
    assert agent.graph is not None
    assert agent.graph.name == "demo"


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("{}", "E011 'nodes' is empty"),
        ("[a]", "E008 graph.nodes: expected a mapping, got a list"),
        ("", "E008 graph.nodes: expected a mapping, got nothing"),
    ],
)
def test_without_nodes_there_is_no_graph(tmp_path: Path, nodes: str, message: str) -> None:
    agent = load(tmp_path, f"name: demo\nstart: e\nnodes: {nodes}\n")

    assert message in said(agent)
    assert agent.graph is None


@pytest.mark.parametrize(
    ("node", "said_of_it", "hint"),
    [
        ("{type: scrpt}", "E012 node 'n': unknown type 'scrpt'", "did you mean 'script'?"),
        (
            "{type: zzz}",
            "E012 node 'n': unknown type 'zzz'",
            "one of llm, agent, script, approval, input, rag, map, set, end",
        ),
        ("{type: 5}", "E008 node 'n'.type: expected a string, got 5 (quote it)", None),
        ("[type]", "E008 graph.nodes.n: expected a mapping, got a list", None),
        ("", "E008 graph.nodes.n: expected a mapping, got nothing", None),
    ],
)
def test_a_node_of_no_known_type_is_broken(
    tmp_path: Path, node: str, said_of_it: str, hint: str | None
) -> None:
    agent = with_nodes(tmp_path, f"n: {node}")

    assert said(agent) == [said_of_it]
    assert agent.findings[0].hint == hint
    assert agent.findings[0].node == "n"
    assert agent.broken_nodes == {"n"}


def test_an_id_must_be_that_of_the_key(tmp_path: Path) -> None:
    agent = with_nodes(
        tmp_path, "a: {type: end, id: a}\nb: {type: end, id: c}\nd: {type: end, id: 5}"
    )

    assert said(agent) == [
        "E013 node 'b': its id says 'c'",
        "E008 node 'd'.id: expected a string, got 5 (quote it)",
    ]
    assert agent.graph is not None
    assert [node.id for node in agent.graph.nodes.values()] == ["e", "a", "b", "d"]


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("", "it is empty"),
        ("x" * 129, "it is longer than 128 characters"),
        (".a", "it begins with '.'"),
        ("a/b", "it contains a slash"),
        ("a\\\\b", "it contains a slash"),
        ("a b", "it contains a space"),
        ("a\\u2003b", "it contains a space"),
        ("a\\x07b", "it contains a control character"),
    ],
)
def test_some_keys_are_not_usable_as_ids(tmp_path: Path, key: str, why: str) -> None:
    agent = with_nodes(tmp_path, f'"{key}": {{type: end}}')

    assert only(agent).code == "E014"
    assert only(agent).message.endswith(f"' is not usable as a node id: {why}")


@pytest.mark.parametrize("key", ["x" * 128, "a.b", "a-b", "ключ", "a:b", "~"])
def test_other_keys_are(tmp_path: Path, key: str) -> None:
    assert with_nodes(tmp_path, f'"{key}": {{type: end}}').findings == ()


def test_the_start_must_exist(tmp_path: Path) -> None:
    finding = only(load(tmp_path, "name: demo\nstart: plam\nnodes:\n  plan: {type: end}\n"))

    assert (finding.code, finding.line) == ("E015", 2)
    assert finding.message == "start node 'plam' does not exist"
    assert finding.hint == "did you mean 'plan'?"


def test_a_broken_start_node_is_not_a_missing_one(tmp_path: Path) -> None:
    agent = load(tmp_path, "name: demo\nstart: p\nnodes:\n  p: {type: zzz}\n  e: {type: end}\n")

    assert [finding.code for finding in agent.findings] == ["E012"]


@pytest.mark.parametrize("documents", ["", "documents: [],", "documents: null,"])
def test_a_rag_node_needs_documents(tmp_path: Path, documents: str) -> None:
    agent = with_nodes(tmp_path, f"r: {{type: rag, {documents} next: e}}")

    assert said(agent) == ["E206 rag node 'r': 'documents' needs at least one source"]
    assert agent.graph is not None
    assert agent.graph.nodes["r"] == RagNode(id="r", documents=[], next="e")


def test_chunks_overlap_by_less_than_their_size(tmp_path: Path) -> None:
    agent = with_nodes(
        tmp_path, "r: {type: rag, documents: [a], chunk_size: 10, chunk_overlap: 10}"
    )

    assert said(agent) == [
        "E008 node 'r'.chunk_overlap: expected less than chunk_size (10), got 10"
    ]


def test_concurrency_is_at_least_one(tmp_path: Path) -> None:
    agent = load(
        tmp_path,
        """
        name: demo
        start: e
        settings: {max_concurrency: 0}
        nodes:
          e: {type: end}
          m: {type: map, over: "{{l}}", as: i, branch: b, collect_into: r, max_concurrency: -1}
        """,
    )

    assert said(agent) == [
        "E305 settings: max_concurrency must be at least 1",
        "E305 node 'm': max_concurrency must be at least 1",
    ]
    assert agent.graph is not None
    assert isinstance(agent.graph.nodes["m"], MapNode)


def test_reducers_have_names(tmp_path: Path) -> None:
    agent = load(tmp_path, f"name: demo\nstart: e\nreducers: {{a: sum, b: add, c: 5}}{END}")

    assert said(agent) == [
        "E306 unknown reducer 'add' for key 'b'",
        "E008 graph.reducers.c: expected 'append', 'extend', 'concat', 'sum', 'max', 'min', "
        "'merge' or 'overwrite', got 5",
    ]
    assert agent.findings[0].hint == (
        "one of append, extend, concat, sum, max, min, merge, overwrite"
    )
    assert agent.graph is not None
    # If the graph is run nevertheless, the first write to b fails.
    assert agent.graph.reducers == {"a": "sum", "b": "add"}


def test_an_output_schema_that_is_no_mapping_has_its_own_code(tmp_path: Path) -> None:
    agent = with_nodes(tmp_path, "n: {type: llm, prompt: p, output_schema: 5}")

    assert said(agent) == ["E213 node 'n': output_schema: expected a mapping, got 5"]


def test_variables_are_checked_one_by_one(tmp_path: Path) -> None:
    variables = "[{name: a, description: d, default: [1]}, 5, {name: b, description: d}]"
    agent = load(tmp_path, f"name: demo\nstart: e\nvariables: {variables}{END}")

    assert said(agent) == [
        "E008 variables[0].default: expected a string or a number or true or false, got a list",
        "E008 graph.variables[1]: expected a mapping, got 5",
    ]
    assert agent.graph is not None
    assert [variable.name for variable in agent.graph.variables] == ["a", "b"]


def test_a_normal_agent_is_loaded(tmp_path: Path) -> None:
    config = "version: 1\nmodel: openai:gpt\ntemperature: null\ncan_spawn_agents: true\n"
    agent = load(tmp_path, config, file="config.yaml")

    assert agent.findings == ()
    assert not agent.is_graph
    assert agent.graph is None
    assert agent.normal is not None
    assert (agent.normal.version, agent.normal.can_spawn_agents) == ("1", True)


def test_a_normal_agent_has_the_same_reading_rules(tmp_path: Path) -> None:
    config = (
        "temperature: hot\nvariables: [{name: a}]\nmemory: {a: 1}\nx-a: 1\nauto_continu: true\n"
    )
    agent = load(tmp_path, config, file="config.yaml")

    assert said(agent) == [
        'E008 config.temperature: expected a number, got the text "hot"',
        "E007 variables[0]: 'description' is required",
        "W011 config.memory has no effect here",
        "E006 unknown field 'auto_continu' in config",
    ]


def test_texts_may_be_in_files_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "demo/prompts").mkdir(parents=True)
    (tmp_path / "demo/prompts/plan.md").write_bytes("\ufeffPlan\n{{topic}}.\n\n".encode())
    (tmp_path / "demo/role.md").write_bytes(b"You plan.\r\n")
    inline = {"prompt": "Plan\n{{topic}}.\n", "instructions": "You plan."}

    agent = with_nodes(
        tmp_path,
        "a: {type: llm, prompt: {file: prompts/plan.md}, instructions: {file: role.md}, next: e}",
    )

    assert agent.graph is not None
    node = agent.graph.nodes["a"]
    assert {name: getattr(node, name) for name in inline} == inline
    assert agent.findings == ()


def test_a_finding_in_such_a_text_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/plan.md").write_text("Plan\n for {{topic}}.")
    agent = with_nodes(tmp_path, "a: {type: llm, prompt: {file: plan.md}, next: e}")
    place = ("nodes", "a", "prompt")

    found = agent.document.finding("W016", "it is not set", *place, offset=len("Plan\n for "))

    assert (found.file, found.line, found.column, found.node) == (
        str(tmp_path / "demo/plan.md"),
        2,
        6,
        "a",
    )
    assert agent.document.finding("W016", "", "nodes", "a").file.endswith("graph.yaml")
