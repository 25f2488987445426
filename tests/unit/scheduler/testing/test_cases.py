"""Files of test cases: what they may hold, and how they say what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from sleipnir.scheduler.runs.recording import RecordedCall
from sleipnir.scheduler.testing.cases import Case, read_all_cases
from sleipnir.scheduler.testing.evaluation.file import read_evaluation
from sleipnir.scheduler.testing.replies import reply_of
from tests.support.pages import blocks


def read(directory: Path, text: str) -> tuple[list[Case], list[str]]:
    """The cases of one file, and the findings without its path."""
    (directory / "tests").mkdir(exist_ok=True)
    file = directory / "tests" / "one.yaml"
    file.write_text(dedent(text).lstrip("\n"))
    cases, findings = read_all_cases(directory)
    return cases, [str(finding).removeprefix(f"{file}:") for finding in findings]


def says(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def test_a_file_is_one_case_or_several(tmp_path: Path) -> None:
    alone, _ = read(tmp_path, "name: a")
    several, _ = read(tmp_path, "cases:\n  - name: a\n  - name: b")

    assert [case.id for case in alone] == ["one::a"]
    assert [(case.id, case.line) for case in several] == [("one::a", 2), ("one::b", 3)]


def test_replies_are_in_order_or_by_node(tmp_path: Path) -> None:
    (listed,), _ = read(tmp_path, "{name: a, replies: [x, {text: y}]}")
    (by_node,), _ = read(tmp_path, "{name: a, replies: {n: [x, y], m: z}}")

    assert listed.replies == (RecordedCall(says("x")), RecordedCall(says("y")))
    assert [(call.node, call.reply) for call in by_node.replies] == [
        ("n", says("x")),
        ("n", says("y")),
        ("m", says("z")),
    ]


def test_a_reply_may_be_data_or_a_failure(tmp_path: Path) -> None:
    (case,), _ = read(tmp_path, "{name: a, replies: [{json: {n: 1.5}}, {error: HTTP 500}]}")

    assert case.replies == (RecordedCall(says('{"n":1.5}')), RecordedCall(error="HTTP 500"))


def test_calls_of_a_case_have_ids_of_their_own(tmp_path: Path) -> None:
    two = "{calls: [{name: f}, {name: g, arguments: {x: 1}}]}"

    (case,), _ = read(tmp_path, f"{{name: a, replies: [{two}, {{calls: [{{name: f}}]}}]}}")

    calls = [call for reply in case.replies for call in (reply.reply or {})["tool_calls"]]
    assert [call["id"] for call in calls] == ["call_1", "call_2", "call_3"]
    assert calls[1]["function"] == {"name": "g", "arguments": '{"x":1}'}


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("prompt: x", "1:1: E007 one: 'name' is required"),
        ("name: a\nexpects: {}", "2:1: E006 unknown field 'expects' in one"),
        ("name: a\nexpect: []", "2:1: E008 one.expect: expected a mapping, got a list"),
        ("name: a\nexpect: {status: ok}", "2:10: E008 one.expect.status: expected 'succeeded',"),
        ("name: a\nexpect: {route: [[1]]}", "2:19: E008 one.expect.route[0][0]: expected a string"),
        ("name: a\nexpect: {visits: {n: -1}}", "2:19: E008 one.expect.visits.n: expected at least"),
        ("name: a\nexpect: {output: {is: x}}", "2:19: E006 unknown field 'is' in one"),
        (
            "name: a\nexpect: {output: {matches: '('}}",
            "2:19: E008 this is not a valid regular expression",
        ),
        ("name: a\nexpect: {cost: {max_usd: -1}}", "2:17: E008 one.expect.cost.max_usd: expected"),
        ("name: a\nreplies: x", "2:1: E008 one.replies: expected a list, or a mapping from nodes"),
        ("name: a\nreplies: [5]", "2:11: E008 one.replies[0]: expected a text, or a mapping"),
        ("name: a\nreplies: [{txt: x}]", "2:12: E006 unknown field 'txt' in one"),
        (
            "name: a\nreplies: {n: [{calls: [{}]}]}",
            "2:24: E007 one: 'replies.n[0].calls[0].name' is required",
        ),
        ("name: a\nreplay: r\nreplies: [x]", "3:1: E008 give a case 'replay' or 'replies'"),
        ("cases: [{name: a}, {name: a}]", "1:1: E008 a second case is named 'a'"),
        ("cases: {}", "1:1: E008 one.cases: expected a list"),
        ("cases: [a]", "1:9: E008 one.cases[0]: expected a mapping"),
        ("name: [", "2:1: E003"),
    ],
)
def test_a_mistake_has_its_place(tmp_path: Path, text: str, finding: str) -> None:
    _, findings = read(tmp_path, text)

    assert findings[0].startswith(finding), findings


def test_cases_in_the_documentation_have_no_mistakes(tmp_path: Path) -> None:
    texts = [text for text in blocks("testing-agents.md", "yaml") if "nodes:" not in text]
    evaluations = [text for text in texts if text.startswith("rows:")]
    cases = [text for text in texts if text not in evaluations]
    file = tmp_path / "people.yaml"

    found = [read(tmp_path, text)[1] for text in cases]
    for text in evaluations:
        file.write_text(text)
        assert read_evaluation(file)[1] == ()

    assert found == [[]] * len(cases) != []
    assert evaluations


def test_a_reply_of_a_model_is_written_as_a_case_does(tmp_path: Path) -> None:
    replies = [
        {"text": "It says: hello.\n# no comment"},
        {"text": ""},
        {"text": "It is 12", "finish": "length"},
        {"refusal": "No."},
        {"text": "Look:", "calls": [{"name": "fs_cat", "arguments": {"path": "a.txt"}}]},
    ]
    lines = "".join(f"\n- {json.dumps(each)}" for each in replies)

    (case,), _ = read(tmp_path, f"name: a\nreplies:{lines}")

    assert [reply_of(call.reply or {}, call.finish) for call in case.replies] == replies
    for arguments in ("{", "[]"):
        broken = {"tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}
        assert reply_of(broken) is None
