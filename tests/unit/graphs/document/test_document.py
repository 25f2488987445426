"""Reading YAML: which values there are, what is refused, and where everything stands."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sleipnir.graphs.document import document as document_module
from sleipnir.graphs.document.document import MAX_ALIASED_NODES, Document, name_place, read_document
from sleipnir.graphs.document.finding import Finding


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "graph.yaml"


def read(file: Path, text: str | bytes) -> tuple[Document | None, list[Finding]]:
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_document(file)


def document(file: Path, text: str | bytes) -> Document:
    found, findings = read(file, text)
    assert found is not None, findings
    assert not findings
    return found


def problems(file: Path, text: str | bytes) -> list[tuple[str, int, int]]:
    return [(finding.code, finding.line, finding.column) for finding in read(file, text)[1]]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[(word, word) for word in ("yes", "No", "on", "OFF", "y", "tRUE", "nULL")],
        *[(word, word) for word in ("2024-01-01", "1:30", "1_000", "0b1", "=", "1.2.3", "-a")],
        *[(word, True) for word in ("true", "True", "TRUE")],
        *[(word, False) for word in ("false", "False", "FALSE")],
        *[(word, None) for word in ("null", "Null", "NULL", "~", "")],
        ("012", 12),
        ("+3", 3),
        ("0o17", 15),
        ("0x1F", 31),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("1.", 1.0),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("-.5E-3", -0.0005),
        ('"5"', "5"),
        ("'true'", "true"),
        ("|\n  5", "5\n"),
        ("[1, {a: b}]", [1, {"a": "b"}]),
    ],
)
def test_scalars_follow_the_core_schema(file: Path, text: str, value: Any) -> None:
    data = document(file, f"k: {text}\n").data

    assert repr(data) == repr({"k": value})


def test_a_byte_order_mark_and_a_document_start_are_accepted(file: Path) -> None:
    assert document(file, b"\xef\xbb\xbf---\na: 1\n...\n").data == {"a": 1}


def test_plain_aliases_repeat_a_value(file: Path) -> None:
    found = document(file, "a: &x {k: [1]}\nb: *x\n")

    assert found.data == {"a": {"k": [1]}, "b": {"k": [1]}}
    assert found.position("b") == (2, 1)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        (b"a: 1\nb: \xff\n", 2, 1),
        (b"\xff\xfea\x00", 1, 1),
        (b"a: [1\nb: 2\n", 2, 2),
        (b"a: 1\nb: x\x07y\n", 2, 5),
        (b"a: *gone\n", 1, 4),
        (b"# " + b"x" * 1024 * 1024, 1, 1),
    ],
)
def test_what_is_no_yaml_cannot_be_read(file: Path, text: bytes, line: int, column: int) -> None:
    found, findings = read(file, text)

    assert found is None
    assert [(f.code, f.line, f.column) for f in findings] == [("E003", line, column)]
    assert findings[0].message.startswith("cannot read graph.yaml: ")


def test_a_missing_file_and_a_directory_cannot_be_read(file: Path) -> None:
    missing = read_document(file)[1]
    directory = read_document(file.parent)[1]

    assert missing[0].message == "cannot read graph.yaml: no such file or directory"
    assert directory[0].code == "E003"


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("", "the file is empty"),
        ("# nothing\n", "the file is empty"),
        ("- a\n", "expected a mapping at the top, got a list"),
        ("null\n", "expected a mapping at the top, got null"),
        ("a: 1\n---\nb: 2\n", "more than one document"),
        ("a: &x [*x]\n", "the alias *x stands inside its own anchor"),
        ("a: " + "[" * 60, "nested more than 50 levels deep"),
        ("? " * 5000 + "a", "nested more than 50 levels deep"),
    ],
)
def test_yaml_there_is_nothing_to_make_of(file: Path, text: str, detail: str) -> None:
    found, findings = read(file, text)

    assert found is None
    assert [(f.code, f.message) for f in findings] == [("E005", f"unsupported YAML: {detail}")]


def test_an_alias_bomb_is_refused(file: Path) -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]

    found, findings = read(file, "\n".join(levels))

    assert found is None
    assert f"aliases expand to more than {MAX_ALIASED_NODES:,} values" in findings[0].message


def test_aliases_cannot_nest_deeper_than_what_is_written_out(file: Path) -> None:
    deep = "[" * 30 + "]" * 30

    found, findings = read(file, f"a: &a {deep}\nb: {'[' * 30}*a{']' * 30}\n")

    assert found is None
    assert findings[0].message == "unsupported YAML: nested more than 50 levels deep"


def test_tags_and_merge_keys_are_reported_together(file: Path) -> None:
    text = "a: &x {k: 1}\nb:\n  <<: *x\nc: !!str 5\nd: !own [1]\n"

    found, findings = read(file, text)

    assert found is not None
    assert [(f.code, f.line, f.column) for f in findings] == [
        ("E005", 3, 3),
        ("E005", 4, 4),
        ("E005", 5, 4),
    ]


def test_a_key_that_occurs_twice_is_reported_where_it_occurs_again(file: Path) -> None:
    text = 'a: 1\nnodes:\n  n: {x: [{k: 1, "k": 2}]}\n  n: {}\na: 2\n'

    found, findings = read(file, text)

    assert found is not None
    assert [(f.code, f.line, f.column) for f in findings] == [
        ("E004", 3, 18),
        ("E004", 4, 3),
        ("E004", 5, 1),
    ]
    assert findings[1].message == "key 'n' appears twice"
    assert findings[1].node == "n"


@pytest.mark.parametrize("key", ["1", "true", "~", "1.5", "? [a, b]\n  ", "{a: b}"])
def test_a_key_must_be_a_string(file: Path, key: str) -> None:
    findings = read(file, f"initial_state:\n  {key}: x\n")[1]

    assert [finding.code for finding in findings] == ["E008"]
    assert "graph.initial_state: expected a string as key, got" in findings[0].message


def test_an_unquoted_key_is_kept_as_written(file: Path) -> None:
    found, findings = read(file, "nodes: {0x1F: {type: end}}\n")

    assert found is not None
    assert found.data == {"nodes": {"0x1F": {"type": "end"}}}
    assert findings[0].message.endswith("got 0x1F (quote it)")


@pytest.mark.parametrize("number", [".nan", ".NaN", ".inf", "-.Inf", "+.INF", "1e999", "9" * 1001])
def test_numbers_json_cannot_hold_are_refused(file: Path, number: str) -> None:
    found, findings = read(file, f"nodes:\n  a:\n    timeout: {number}\n")

    assert found is not None
    assert [(f.code, f.node, f.line, f.column) for f in findings] == [("E008", "a", 3, 14)]
    assert findings[0].message.startswith("node 'a'.timeout: expected")


def test_positions_are_those_of_keys_and_of_list_items(file: Path) -> None:
    found = document(file, "a: 1\nnodes:\n  n:\n    next: [x,\n      y]\n")

    assert found.position("nodes", "n") == (3, 3)
    assert found.position("nodes", "n", "next") == (4, 5)
    assert found.position("nodes", "n", "next", 1) == (5, 7)


def test_the_position_of_what_is_missing_is_where_it_belongs(file: Path) -> None:
    found = document(file, "# head\na: 1\nnodes:\n  n: {}\n")

    assert found.position("start") == (2, 1)
    assert found.position("nodes", "n", "prompt") == (4, 3)
    assert found.position("nodes", "m", "next", 3) == (3, 1)


def test_columns_count_characters(file: Path) -> None:
    assert document(file, "{ключ: 1, b: 2}\n").position("b") == (1, 11)


def test_control_characters_in_names_do_not_reach_the_terminal(file: Path) -> None:
    findings = read(file, 'nodes: {"a\\e[31m": {k: 1, k: "x\\ny"}, "n\\nm": 1, "n\\nm": 2}')[1]

    assert [finding.node for finding in findings] == ["a\\x1b[31m", "n\\nm"]
    assert all(finding.message.isprintable() for finding in findings)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ((), ("graph", "")),
        (("name",), ("graph", "name")),
        (("settings",), ("graph", "settings")),
        (("settings", "timeout"), ("settings", "timeout")),
        (("variables", 0), ("graph", "variables[0]")),
        (("variables", 0, "name"), ("variables[0]", "name")),
        (("nodes", "a"), ("graph", "nodes.a")),
        (("nodes", "a", "next", 1), ("node 'a'", "next[1]")),
        (("initial_state", "k", "l"), ("graph", "initial_state.k.l")),
    ],
)
def test_places_have_the_words_of_the_language(
    path: tuple[str | int, ...], words: tuple[str, str]
) -> None:
    assert name_place(path, "graph") == words


def test_the_parser_in_python_reads_the_same(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &x [1, 'q']\nb: *x\nc: |\n  t\nd: !!int 5\n"
    from_c = read(file, text)

    monkeypatch.setattr(document_module, "_PARSER", yaml.SafeLoader)

    assert read(file, text) == from_c


TOKENS = [
    *"ab:,-?|>#&*!%@'\"{}[]~5 \n\t\\",
    ": ",
    "- ",
    "\n  ",
    "&a ",
    "*a",
    "<<: ",
    "---\n",
    ".nan",
]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.lists(st.sampled_from(TOKENS), max_size=40).map("".join))
def test_any_text_is_either_read_or_complained_about(file: Path, text: str) -> None:
    found, findings = read(file, text)

    assert found is not None or findings
    assert all(1 <= finding.line <= text.count("\n") + 2 for finding in findings)
    assert all(finding.message.isprintable() for finding in findings)
