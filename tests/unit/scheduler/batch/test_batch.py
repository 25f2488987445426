"""Lines of a batch: how they are read, what identifies them, where their results go."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path, PurePath
from textwrap import dedent
from typing import Any

import pytest

from sleipnir.graphs.document.loader import load_agent
from sleipnir.scheduler.batch.columns import known_keys
from sleipnir.scheduler.batch.csv_lines import CsvRules
from sleipnir.scheduler.batch.finished import FinishedLine
from sleipnir.scheduler.batch.identity import name_of_file, run_id_of
from sleipnir.scheduler.batch.intake import BadInput, Intake, load_input, require_good
from sleipnir.scheduler.batch.ledger import Item, Ledger
from sleipnir.scheduler.batch.lines import (
    BadLine,
    EmptyRow,
    Format,
    Line,
    format_of,
    request_of,
)
from sleipnir.scheduler.batch.reading import decoded_stream, read_lines
from sleipnir.scheduler.batch.reported import Reported
from sleipnir.scheduler.batch.results.csv_table import lines_of, write_table
from sleipnir.scheduler.batch.results.file import ResultsFile
from sleipnir.scheduler.errors import SleipnirError, SubmissionRefused
from sleipnir.scheduler.runs.labels import LONGEST_NAME
from sleipnir.scheduler.runs.model import Failure, Run, RunContext, Status, Usage
from sleipnir.scheduler.runs.reasons import Reason, reasons_of
from sleipnir.scheduler.runs.submit import Request

BATCH = "letters"
LIMIT = 10_000


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger() as found:
        yield found


def read(
    text: str | bytes, form: Format, encoding: str | None = None
) -> list[Line | EmptyRow | BadLine]:
    data = text.encode() if isinstance(text, str) else text
    stream = decoded_stream(io.BufferedReader(io.BytesIO(data)), encoding)  # type: ignore[arg-type]
    return list(read_lines(stream, form, LIMIT))


def problem(text: str | bytes, form: Format = "jsonl") -> str:
    (bad,) = read(text, form)
    return str(bad)


def take(ledger: Ledger, text: str, form: Format = "txt", check: Any = lambda _: None) -> Intake:
    return load_input(ledger, io.StringIO(text), form, check, Request(), LIMIT)


def items(ledger: Ledger) -> list[str]:
    return [item.item for item in ledger.following(0)]


def a_run(item: str, status: Status = Status.SUCCEEDED, attempt: int = 1) -> Run:
    failed = status == Status.FAILED
    return Run(
        run_id=run_id_of(BATCH, item, attempt),
        agent="writer",
        digest="d",
        status=status,
        step=2,
        frontier=("end",),
        created_at=0,
        started_at=1_000,
        ended_at=3_500,
        deadline=None,
        output=None if failed else f"result of {item}",
        failure=Failure("R013", "it broke", "a") if failed else None,
        usage=Usage(10, 5, 0.25),
        context=RunContext(),
        parent=None,
        batch=BATCH,
        item=item,
        visits={},
    )


def an_item(ledger: Ledger, item: str) -> Item:
    return next(found for found in ledger.following(0) if found.item == item)


def results_in(file: Path) -> list[tuple[str, str]]:
    documents = [json.loads(line) for line in file.read_text().splitlines()]
    return [(document["id"], document["status"]) for document in documents]


# ---- reading


@pytest.mark.parametrize(
    ("name", "form"),
    [("a.jsonl", "jsonl"), ("a.ndjson", "jsonl"), ("a.CSV", "csv"), ("a.txt", "txt"), ("a", None)],
)
def test_the_extension_tells_the_format(name: str, form: Format | None) -> None:
    assert format_of(PurePath(name)) == form


def test_a_json_line_is_a_prompt_or_an_object() -> None:
    text = """\
"hello"

{"id": 7, "prompt": "hi", "state": {"k": [1]}, "vars": {"n": 3}, "answers": {"ask": "yes"}}
"""

    assert read(text, "jsonl") == [
        Line(1, prompt="hello"),
        Line(3, "7", "hi", {"k": [1]}, {"n": "3"}, {"ask": ["yes"]}),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "line 1: this is not JSON"),
        ('{"state": {"x": NaN}}', "NaN is not a valid JSON number"),
        ('{"state": {"x": 1e400}}', "1e400 is not a valid JSON number"),
        ("[1]", "expected a string or an object"),
        ('{"promt": "x"}', "unknown field 'promt' (known: id, prompt, state, vars,"),
        ('{"prompt": 3}', "'prompt': input should be a valid string"),
        ('{"id": ""}', "'id' is empty"),
        (b'"\xff"', "this is not UTF-8"),
    ],
)
def test_a_malformed_json_line_is_named(text: str | bytes, expected: str) -> None:
    assert expected in problem(text)


@pytest.mark.parametrize("text", ["", "\n", "\n\n"])
def test_a_csv_of_blank_lines_has_no_lines(text: str) -> None:
    assert read(text, "csv") == []


def test_other_columns_of_csv_go_into_the_state() -> None:
    text = 'id,prompt,city\na,"two\nlines",Oslo\n\nb,one,"Bergen, west"\n'

    assert read(text, "csv") == [
        Line(2, "a", "two\nlines", {"city": "Oslo"}),
        Line(5, "b", "one", {"city": "Bergen, west"}),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prompt,a\nx\n", "line 2: 1 columns, but the header has 2"),
        (
            'prompt\n"x" y\n',
            "line 2: text follows a closing quote; write a quote",
        ),
        ("prompt,initial_prompt\nx,y\n", "line 2: the prompt is given twice, as `prompt` and as"),
        (b"prompt\n\xff\n", "line 2: this is not UTF-8"),
    ],
)
def test_a_malformed_csv_line_is_named(text: str | bytes, expected: str) -> None:
    assert problem(text, "csv").startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\nprompt,prompt\nx,y\n", "line 2, the header: 2 columns are named 'prompt'"),
        ("prompt,,b\nx,y,z\n", "line 1, the header: column 2 has no name"),
        (b"pr\xf6mpt\nx\n", "line 1, the header: this is not UTF-8"),
        (
            'prompt\na\n"b\nc\n',
            "the row that begins in line 3 is never closed",
        ),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_whatever_is_skipped(
    text: str | bytes, expected: str
) -> None:
    with pytest.raises(SubmissionRefused, match=expected):
        read(text, "csv")


def test_excels_line_with_the_delimiter_is_no_header_and_its_empty_rows_are_no_lines() -> None:
    text = "sep=|\r\nid|prompt|a,b;c\r\n1|x|y\r\n||\r\n | |\r\n2||z\r\n"

    assert read(text, "csv") == [
        Line(3, "1", "x", {"a,b;c": "y"}),
        EmptyRow(4),
        EmptyRow(5),
        Line(6, "2", "", {"a,b;c": "z"}),
    ]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("form", ["csv", "jsonl", "txt"])
def test_the_encoding_is_told_by_its_first_bytes(form: Format, encoding: str) -> None:
    text = {"csv": "prompt\nZoë\n", "jsonl": '"Zoë"\n', "txt": "Zoë\n"}[form]

    (line,) = read(text.encode(encoding), form)

    assert isinstance(line, Line)
    assert line.prompt == "Zoë"


def test_an_encoding_may_be_given_unless_a_byte_order_mark_tells_it() -> None:
    text = "id;prompt\n1;Grüße für 5 €\n"

    (line,) = read(text.encode("cp1252"), "csv", "cp1252")

    assert line == Line(2, "1", "Grüße für 5 €")
    assert read(text.encode("utf-8-sig"), "csv", "cp1252") == [line]


def test_bytes_that_are_not_in_the_encoding_end_the_reading() -> None:
    with pytest.raises(SubmissionRefused, match=r"not utf-16.* --encoding"):
        read("prompt\nx\n".encode("utf-16") + b"x", "csv")


def test_a_prompt_by_the_name_of_its_key_is_the_prompt() -> None:
    assert read("id,initial_prompt\n1,hi\n", "csv") == [Line(2, "1", "hi")]
    assert read('{"state": {"initial_prompt": "hi", "a": 1}}', "jsonl") == [
        Line(1, prompt="hi", state={"a": 1})
    ]
    expected = "line 1: the prompt is given twice"
    assert problem('{"prompt": "x", "state": {"initial_prompt": "y"}}').startswith(expected)


def test_columns_are_other_fields_or_left_out() -> None:
    text = "Question,Nr,Town,Dial\nwhere,7,Ulm,1\n"
    meant = {"Question": "prompt", "Nr": "id", "Dial": ""}
    twice = CsvRules(renamed={"Question": "Town"})

    (line,) = read_lines(io.StringIO(text), "csv", LIMIT, CsvRules(renamed=meant))

    assert line == Line(2, "7", "where", {"Town": "Ulm"})
    with pytest.raises(SubmissionRefused, match="2 columns are named 'Town'"):
        next(read_lines(io.StringIO(text), "csv", LIMIT, twice))


def test_what_is_odd_about_an_input_is_said_with_its_lines(ledger: Ledger) -> None:
    text = "id,prompt,topic,town\n1,a,b,c\n2,,b,c\n,,,\n3, ,b,\n"
    rules = CsvRules(known=frozenset({"initial_prompt", "topic"}))
    ignoring = CsvRules(known=frozenset({"topic", "town"}))

    intake = load_input(ledger, io.StringIO(text), "csv", lambda _: None, Request(), LIMIT, rules)
    with Ledger() as other:
        without = load_input(
            other, io.StringIO(text), "csv", lambda _: None, Request(), LIMIT, ignoring
        )

    assert list(intake.warnings("ask")) == [
        "rows without any value are left out (1 line, first 4)",
        "the prompt is empty (2 lines, first 3)",
        "nothing in agent 'ask' reads 'town' (3 lines, first 2)",
    ]
    assert list(without.warnings("ask"))[1:] == [
        "nothing in agent 'ask' reads 'prompt' (2 lines, first 2)"
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_header_tells_the_delimiter(delimiter: str) -> None:
    text = '\n"id"|prompt|a|b\nx|"one|two"|"1,5"|2\n'.replace("|", delimiter)

    assert read(text, "csv") == [Line(3, "x", f"one{delimiter}two", {"a": "1,5", "b": "2"})]


def test_a_given_delimiter_goes_before_what_the_header_looks_like() -> None:
    lines = read_lines(io.StringIO("prompt|a,b,c\nx|1\n"), "csv", LIMIT, CsvRules("|"))

    assert list(lines) == [Line(2, prompt="x", state={"a,b,c": "1"})]


@pytest.mark.parametrize("header", ["name,city", "a|b", "initial prompt", "id,city", "id,Prompt"])
def test_a_header_of_which_nothing_comes_is_refused(header: str) -> None:
    rules = CsvRules(known=frozenset({"topic"}))

    with pytest.raises(SubmissionRefused, match="no column 'prompt', and the agent uses none"):
        list(read_lines(io.StringIO(f"{header}\n1,2\n"), "csv", LIMIT, rules))


@pytest.mark.parametrize("header", ["prompt,city", "initial_prompt,city", "topic,city"])
def test_a_header_with_a_column_that_the_agent_notices_is_taken(header: str) -> None:
    rules = CsvRules(known=frozenset({"topic"}))

    assert len(list(read_lines(io.StringIO(f"{header}\n1,2\n"), "csv", LIMIT, rules))) == 1


def test_the_columns_that_an_agent_notices(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text("jq .city")
    (tmp_path / "graph.yaml").write_text(
        dedent("""
        name: a
        initial_state: {tone: mild}
        variables: [{name: mark, description: put at the end}]
        start: a
        nodes:
          a: {type: script, script: a.sh, next: b}
          b: {type: llm, prompt: "about {{topic}}", state_updates: {found: "{{output}}"}, next: z}
          z: {type: end}
        """)
    )
    graph = load_agent(tmp_path).graph
    assert graph is not None

    known = known_keys(graph, tmp_path)

    assert {"tone", "mark", "city", "topic", "found"} <= known
    assert "name" not in known


# ---- results as a table


def test_a_table_shows_results_and_executes_none(tmp_path: Path) -> None:
    table = tmp_path / "out.csv"
    usage = {"total_tokens": 15, "cost_usd": None}
    cause = {"code": "R014", "node": "cheap", "message": "HTTP 500\nbusy"}
    error = {"code": "R013", "node": "a", "message": "@SUM(1)", "caused_by": [cause]}
    good = {
        "agent_version": "0123456789ab",
        "id": "x",
        "output": '=cmd|"/C calc"!A1',
        "error": None,
        "usage": usage,
    }
    bad = {"id": "-5", "output": None, "error": error, "usage": usage, "failures": [{}]}
    for result in (good, bad):
        result |= {"input": {"prompt": "two\nlines"}, "state": {"k": [1, "+2"], "n": -0.5}}
    lines_of(table).write_text("".join(f"{json.dumps(each)}\n" for each in (good, bad)) + '{"id"')

    write_table(table, with_input=True, state_keys=["k", "n"])

    with table.open(newline="") as stream:
        first, second = csv.DictReader(stream)
    assert first["output"] == '\'=cmd|"/C calc"!A1'
    assert (first["prompt"], first["state.k"]) == ("two\nlines", '[1,"+2"]')
    assert (first["state.n"], first["cost_usd"], first["total_tokens"]) == ("-0.5", "", "15")
    assert (second["id"], second["error_message"], second["failed_nodes"]) == (
        "-5",
        "'@SUM(1)",
        "1",
    )
    assert (first["agent_version"], first["first_failure"]) == ("0123456789ab", "")
    assert second["first_failure"] == "R014 at 'cheap': HTTP 500"


# ---- why lines failed


def a_failure(message: str, code: str = "R013", node: str = "a") -> dict[str, str]:
    return {"code": code, "node": node, "message": message}


def test_failures_of_a_kind_are_one_reason(ledger: Ledger) -> None:
    for number, row in enumerate(("17", "8", "9"), 2):
        message = f"no row {row} in 'x{row}.csv' (run 00ff00ff00ff00{row:0>2})\nTraceback"
        result = {"error": a_failure(message), "failures": []}
        ledger.note_reasons(str(number), number, reasons_of(result))
    other = {"error": a_failure("gone"), "failures": [a_failure("late"), a_failure("late")]}
    ledger.note_reasons("9", 9, reasons_of(other))

    first = Reason(False, "R013", "a", "no row 17 in 'x17.csv' (run 00ff00ff00ff0017)")
    assert list(ledger.reasons()) == [
        (3, 2, first),
        (1, 9, Reason(False, "R013", "a", "gone")),
        (1, 9, Reason(True, "R013", "a", "late")),
    ]


def test_a_line_that_succeeds_later_has_no_reason(ledger: Ledger) -> None:
    failed = {"error": a_failure("gone"), "failures": []}
    ledger.note_reasons("1", 1, reasons_of(failed))

    ledger.note_reasons("1", 1, reasons_of({"error": None, "failures": []}))

    assert list(ledger.reasons()) == []


def test_a_reason_may_hold_what_no_text_does(ledger: Ledger) -> None:
    refused = a_failure("the model refused: \ud800")

    ledger.note_reasons("1", 1, reasons_of({"error": refused, "failures": []}))

    (found,) = ledger.reasons()
    assert found.reason.message == "the model refused: \\ud800"


def test_a_field_of_csv_may_be_longer_than_any_limit_of_the_module() -> None:
    (line,) = read("prompt\n" + "x" * 200_000, "csv")

    assert isinstance(line, Line)
    assert len(line.prompt) == 200_000


def test_plain_text_is_a_prompt_a_line() -> None:
    assert read("\ufeffone\r\n\n two \n", "txt") == [
        Line(1, prompt="one"),
        Line(3, prompt=" two "),
    ]


def test_labels_of_a_line_go_before_those_of_all_and_do_not_tell_it_from_others() -> None:
    line, same = read('{"labels": {"a": "1"}}\n{"labels": {"a": "2"}}', "jsonl")
    assert isinstance(line, Line)
    assert isinstance(same, Line)

    request = request_of(line.to_json(), Request(labels={"a": "0", "b": "0"}))

    assert request.labels == {"a": "1", "b": "0"}
    assert line.digest() == same.digest()


def test_what_a_line_says_goes_before_what_holds_for_all() -> None:
    line = Line(1, None, "hi", {"a": 1}, {"tone": "mild"}, {"ask": ["no"]})
    defaults = Request(
        state={"a": 0, "b": 0}, variables={"tone": "harsh"}, answers={"ask": ["yes"]}, timeout_s=5
    )

    assert request_of(line.to_json(), defaults) == Request(
        prompt="hi",
        state={"a": 1, "b": 0},
        variables={"tone": "mild"},
        answers={"ask": ["no"]},
        timeout_s=5,
    )


# ---- identity


def test_names_and_run_ids_are_the_same_at_every_start() -> None:
    name = name_of_file("writer", Path("/data/letters.jsonl"))

    assert name == "writer-letters-ba556b69"
    assert run_id_of(name, "a", 1) == run_id_of(name, "a", 1)
    assert len({run_id_of(name, item, n) for item in ("a", "b") for n in (1, 2)}) == 4


def test_a_file_whose_name_is_not_utf_8_has_a_batch_that_can_be_named() -> None:
    name = name_of_file("writer", Path(os.fsdecode(b"/data/l\xe9tters.txt")))

    assert name.startswith(r"writer-l\udce9tters-")
    assert name.isascii()


def test_a_file_whose_name_has_line_ends_or_is_long_has_a_batch_with_a_valid_name() -> None:
    assert name_of_file("writer", Path("/data/a\nb.txt")).startswith(r"writer-a\nb-")
    assert len(name_of_file("writer", Path(f"/data/{'x' * 251}.txt"))) < LONGEST_NAME


def test_equal_lines_without_ids_are_counted(ledger: Ledger) -> None:
    take(ledger, "one\ntwo\none\none\n")

    one = Line(1, prompt="one").digest()
    assert items(ledger) == [one, Line(2, prompt="two").digest(), f"{one}-2", f"{one}-3"]


def test_an_id_must_not_come_twice(ledger: Ledger) -> None:
    intake = take(ledger, '{"id": "a"}\n{"id": "b"}\n{"id": "a"}\n', "jsonl")

    assert intake.bad == [BadLine(3, "id 'a' was already used in line 1")]
    assert items(ledger) == ["a", "b"]


def test_a_line_that_the_agent_refuses_is_bad(ledger: Ledger) -> None:
    def check(request: Request) -> None:
        if request.prompt == "two":
            raise SubmissionRefused("no twos")

    intake = take(ledger, "one\ntwo\n", check=check)

    with pytest.raises(BadInput, match=r"1 line of in.txt .*\n  line 2: no twos"):
        require_good(intake, "in.txt")


def test_of_many_bad_lines_the_first_are_shown(ledger: Ledger) -> None:
    intake = take(ledger, "{\n" * 25, "jsonl")

    assert intake.bad_count == 25
    assert intake.describe_bad().endswith("… and 5 more")


# ---- the results file


def test_results_of_an_earlier_start_are_kept_and_known(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    take(ledger, '{"id": "a"}\n{"id": "b"}\n{"id": "c"}\n', "jsonl")
    with ResultsFile(file, ledger, BATCH, ordered=False) as results:
        results.append(FinishedLine(an_item(ledger, "b"), a_run("b")))
        results.append(FinishedLine(an_item(ledger, "c"), a_run("c", Status.FAILED)))

    with ResultsFile(file, ledger, BATCH, ordered=False):
        pass

    assert [an_item(ledger, item).reported for item in "abc"] == [
        None,
        Reported(run_id_of(BATCH, "b", 1), 1, "good", Usage(10, 5, 0.25)),
        Reported(run_id_of(BATCH, "c", 1), 1, "failed", Usage(10, 5, 0.25)),
    ]
    assert results_in(file) == [("b", "succeeded"), ("c", "failed")]


def test_a_torn_last_line_is_dropped(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    take(ledger, '{"id": "a"}\n{"id": "b"}\n', "jsonl")
    with ResultsFile(file, ledger, BATCH, ordered=False) as results:
        results.append(FinishedLine(an_item(ledger, "a"), a_run("a")))
    with file.open("a") as torn:
        torn.write('{"id":"b","run_')

    with ResultsFile(file, ledger, BATCH, ordered=False) as results:
        results.append(FinishedLine(an_item(ledger, "b"), a_run("b")))

    assert results_in(file) == [("a", "succeeded"), ("b", "succeeded")]


def test_a_newer_result_takes_the_place_of_an_older_one(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    take(ledger, '{"id": "a"}\n{"id": "b"}\n', "jsonl")
    with ResultsFile(file, ledger, BATCH, ordered=False) as results:
        results.append(FinishedLine(an_item(ledger, "a"), a_run("a", Status.FAILED)))
        results.append(FinishedLine(an_item(ledger, "b"), a_run("b")))

    with ResultsFile(file, ledger, BATCH, ordered=False) as results:
        results.append(FinishedLine(an_item(ledger, "a"), a_run("a", attempt=2)))

    assert results_in(file) == [("b", "succeeded"), ("a", "succeeded")]


def test_an_ordered_file_is_in_input_order_whenever_its_results_came(
    ledger: Ledger, tmp_path: Path
) -> None:
    file = tmp_path / "results.jsonl"
    take(ledger, '{"id": "a"}\n{"id": "b"}\n{"id": "c"}\n', "jsonl")
    with ResultsFile(file, ledger, BATCH, ordered=False) as results:
        results.append(FinishedLine(an_item(ledger, "c"), a_run("c")))
        results.append(FinishedLine(an_item(ledger, "a"), a_run("a")))

    with ResultsFile(file, ledger, BATCH, ordered=True) as results:
        results.append(FinishedLine(an_item(ledger, "b"), a_run("b")))

    assert [item for item, _ in results_in(file)] == ["a", "b", "c"]


def test_results_are_those_of_the_input_when_it_was_edited(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    for lines in ("alpha\nbeta\ngamma\n", "new\ngamma\nalpha\n"):
        with Ledger() as ledger:
            take(ledger, lines)
            with ResultsFile(file, ledger, BATCH, ordered=True) as results:
                for item in ledger.following(0):
                    if item.reported is None:
                        results.append(FinishedLine(item, a_run(item.item)))
            gone, _ = ledger.count_results()

    found = [json.loads(line) for line in file.read_text().splitlines()]
    expected = [
        Line(n, prompt=text).digest() for n, text in enumerate(["new", "gamma", "alpha"], 1)
    ]
    assert [each["id"] for each in found] == expected
    assert [each["line"] for each in found] == [1, 2, 3]
    assert gone == 1


def test_a_results_file_that_was_removed_is_written_again(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    take(ledger, '{"id": "a"}\n', "jsonl")

    with ResultsFile(file, ledger, BATCH, ordered=False) as results:
        results.append(FinishedLine(an_item(ledger, "a"), a_run("a")))
        file.unlink()

    assert results_in(file) == [("a", "succeeded")]


@pytest.mark.parametrize("directory_is_gone", [False, True])
def test_a_results_file_whose_place_was_taken_is_an_error(
    ledger: Ledger, tmp_path: Path, directory_is_gone: bool
) -> None:
    (tmp_path / "results").mkdir()
    file = tmp_path / "results" / "results.jsonl"
    take(ledger, '{"id": "a"}\n', "jsonl")

    results = ResultsFile(file, ledger, BATCH, ordered=False)
    results.append(FinishedLine(an_item(ledger, "a"), a_run("a")))
    file.unlink()
    if directory_is_gone:
        file.parent.rmdir()
    else:
        file.write_text("mine")

    with pytest.raises(SleipnirError, match="run the same command again"):
        results.close()

    assert directory_is_gone or file.read_text() == "mine"


@pytest.mark.parametrize(
    "text",
    ["my notes\n", "my notes", '{"id": "a", "run_id": "0123456789abcdef", "status": "failed"}\n'],
)
def test_a_file_of_something_else_is_left_alone(ledger: Ledger, tmp_path: Path, text: str) -> None:
    file = tmp_path / "notes"
    file.write_text(text)

    with pytest.raises(SubmissionRefused, match="line 1, is not a result of the batch 'letters'"):
        ResultsFile(file, ledger, BATCH, ordered=False)

    assert file.read_text() == text


def test_only_one_command_writes_a_file(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"

    with (
        ResultsFile(file, ledger, BATCH, ordered=False),
        pytest.raises(SubmissionRefused, match="another command is writing"),
    ):
        ResultsFile(file, ledger, BATCH, ordered=False)


@pytest.mark.parametrize("form", ["jsonl", "csv", "txt"])
def test_a_record_without_an_end_is_given_up(form: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sleipnir.scheduler.batch.lines.RECORD_LIMIT_CHARS", 1000)
    fine = "prompt\n" + "a\n" * 5000  # more than one record may have, but not one record

    if form != "jsonl":
        assert len(read(fine, form)) >= 5000
    with pytest.raises(SubmissionRefused, match="line 2 of the input is longer than"):
        read('"id"\n"' + "word," * 5000, form)
    with pytest.raises(SubmissionRefused, match="line 2 of the input is longer than"):
        read('"id"\n"' + ("word\n" if form == "csv" else "word") * 5000, form)


# ---- inputs without end


@pytest.mark.parametrize("form", ["jsonl", "csv", "txt"])
@pytest.mark.parametrize("line", ["", "7", '{"bad'])
def test_an_input_without_end_is_given_up(ledger: Ledger, form: Format, line: str) -> None:
    class Endless(io.StringIO):
        def readline(self, size: int | None = -1, /) -> str:
            return f"{line}\n"

    with pytest.raises(SubmissionRefused, match="more than 10,000 lines, so nothing was submitted"):
        load_input(ledger, Endless(), form, lambda _: None, Request(), LIMIT)


def test_a_batch_leaves_room_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1024 * 1024))

    with Ledger() as ledger, pytest.raises(sqlite3.OperationalError, match="full"):
        take(ledger, "".join(f"{number:01000}\n" for number in range(1_000)))
