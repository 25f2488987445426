"""Shipped tools for databases, code, issues and phones."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from sleipnir.graphs.tools.shipped import SHIPPED_LIBRARY
from sleipnir.worker.tools.call import NeedsConfirmation
from tests.support.global_tools import SHIPPED, GlobalTools
from tests.support.web_server import Page, WebServer


@pytest.fixture
def tools(tmp_path: Path) -> GlobalTools:
    return GlobalTools(tmp_path)


# ---- databases


@pytest.fixture(params=["sqlite:///", "sqlite+pysqlite:///"])
def shop(request: pytest.FixtureRequest, tools: GlobalTools) -> Path:
    """A database, reached through Python's own library and through SQLAlchemy."""
    file = tools.workdir / "shop.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE kettle (name TEXT, price INT)")
        connection.executemany("INSERT INTO kettle VALUES (?, ?)", [("red", 30), ("a, b", 25)])
    connection.close()
    tools.set({"USQL_DSN": f"{request.param}{file}"})
    return file


def rows(file: Path) -> list[tuple[str, int]]:
    connection = sqlite3.connect(file)
    try:
        return connection.execute("SELECT name, price FROM kettle ORDER BY name").fetchall()
    finally:
        connection.close()


def test_rows_are_read_unasked(tools: GlobalTools, shop: Path) -> None:
    code = "select name, price from kettle order by price;"

    assert tools.text("execute_sql_code", {"code": code}) == 'name,price\n"a, b",25\nred,30\n'


@pytest.mark.parametrize(
    ("code", "done"),
    [
        ("UPDATE kettle SET price = 20 WHERE name = 'red'", "1 row changed"),
        ("SELECT 1; UPDATE kettle SET price = 20 WHERE name = 'red'", "1 row changed"),
        ("WITH x AS (SELECT 1) UPDATE kettle SET price = 20 WHERE name = 'red'", "Done"),
    ],
)
def test_a_person_is_asked_before_anything_is_written(
    tools: GlobalTools, shop: Path, code: str, done: str
) -> None:
    before = rows(shop)

    asked = tools.call("execute_sql_code", {"code": code})

    assert isinstance(asked, NeedsConfirmation)
    assert asked.question == f"run this SQL?\n{code}"
    assert rows(shop) == before
    said = tools.text("execute_sql_code", {"code": code}, approvals=[asked.question])
    assert said == done
    assert rows(shop) == [("a, b", 25), ("red", 20)]


def test_of_several_statements_all_count_or_none(tools: GlobalTools, shop: Path) -> None:
    code = "INSERT INTO kettle VALUES ('blue; dark', 1); INSERT INTO elsewhere VALUES (1)"

    said = tools.failure("execute_sql_code", {"code": code}, auto_confirm=True)

    assert said == "the database says: no such table: elsewhere"
    assert len(rows(shop)) == 2


def test_many_rows_are_cut_and_said_to_be(tools: GlobalTools, shop: Path) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1500)"
    code = f"SELECT * FROM ({numbers} SELECT i FROM n)"

    text = tools.text("execute_sql_code", {"code": code})

    assert text.splitlines()[0] == "i"
    assert text.splitlines()[-2:] == ["1000", "(Only the first 1000 rows; narrow the query.)"]


def test_a_database_that_is_not_there_is_not_made_by_reading(tools: GlobalTools) -> None:
    missing = tools.workdir / "missing.db"
    tools.set({"USQL_DSN": f"sqlite:///{missing}"})

    said = tools.failure("execute_sql_code", {"code": "SELECT 1"})

    assert (said, missing.exists()) == (f"there is no database {missing}", False)


def test_a_semicolon_in_what_another_database_may_not_read_as_a_quote_is_asked_about(
    tools: GlobalTools, shop: Path
) -> None:
    smuggled = "SELECT $$'$$; DROP TABLE kettle; COMMIT; --'"
    tools.set({"USQL_DSN": f"sqlite+pysqlite:///{shop}"})

    asked = tools.call("execute_sql_code", {"code": smuggled})

    assert asked == NeedsConfirmation(f"run this SQL?\n{smuggled}")
    tools.set({"USQL_DSN": f"sqlite:///{shop}"})
    found = tools.text("execute_sql_code", {"code": "SELECT price FROM kettle WHERE name <> ';'"})
    assert found == "price\n30\n25\n"


@pytest.mark.parametrize(
    ("dsn", "code", "why"),
    [
        ("sqlite:///x.db", "SELECT '\0'", "refused: a NUL"),
        ("sqlite:///x.db", "SELECT '\ud800'", "half of a surrogate pair"),
        ("postgresql://db.example:port/shop", "SELECT 1", "check its host and port"),
    ],
)
def test_what_no_database_takes_is_said(tools: GlobalTools, dsn: str, code: str, why: str) -> None:
    tools.set({"USQL_DSN": dsn})

    said = tools.failure("execute_sql_code", {"code": code})

    assert why in said
    assert "Traceback" not in said


def test_a_result_is_cut_where_it_gets_too_long(tools: GlobalTools, shop: Path) -> None:
    long = "SELECT replace(hex(zeroblob(100000)), '0', 'x') AS long"

    one = tools.text("execute_sql_code", {"code": f"{long}, name FROM kettle WHERE price = 30"})
    many = "SELECT replace(hex(zeroblob(30000)), '0', 'x') FROM kettle a, kettle b, kettle c"
    all_of_them = tools.text("execute_sql_code", {"code": f"{many}, kettle d, kettle e, kettle f"})

    assert one.endswith(f"{'x' * 10}… (200000 characters in all),red\n")
    assert len(one) < 70_000
    assert all_of_them.endswith("x\n(Only the first 18 rows; narrow the query.)\n")


def test_other_databases_name_what_they_need(tools: GlobalTools) -> None:
    tools.set({"USQL_DSN": "unheard-of://me:word@example.org/db"})

    said = tools.failure("execute_sql_code", {"code": "SELECT 1"})

    assert "needs SQLAlchemy (pip install 'sleipnir[sql]'" in said
    assert "word" not in said


@pytest.mark.parametrize(
    "dsn", ["pq://me:word@example.org/db", "pq:me:word@example.org", "pq://h/db?password=word"]
)
def test_usql_is_not_given_a_password_that_all_users_could_read(
    tools: GlobalTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dsn: str
) -> None:
    program = tmp_path / "programs" / "usql"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nfor last; do :; done; echo "$last"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    tools.set({"USQL_DSN": dsn})

    said = tools.failure("execute_sql_code", {"code": "SELECT 1"})

    assert "~/.usqlpass" in said
    assert "word@" not in said
    tools.set({"USQL_DSN": "pq://me@example.org:5432/db"})
    assert tools.text("execute_sql_code", {"code": "SELECT 1"}) == "pq://me@example.org:5432/db\n"


# ---- code


@pytest.fixture
def code(tools: GlobalTools) -> Path:
    directory = tools.workdir / "code"
    directory.mkdir()
    (directory / "a.py").write_text("print('one')\n# print('no')\nprint(\n    'two',\n)\n")
    (directory / "b.js").write_text("print('js')\n")
    return directory


@pytest.mark.usefixtures("code")
def test_code_is_found_by_its_structure(
    tools: GlobalTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    search = {"pattern": "print($$$A)", "lang": "python"}

    found = tools.text("ast_grep", search)

    assert "a.py:1:print('one')" in found
    assert "a.py:4:    'two'," in found
    assert "no" not in found
    assert "js" not in found
    assert tools.text("ast_grep", {**search, "glob": "!a.py"}) == "Nothing matches print($$$A)"
    assert "there is no file" in tools.failure("ast_grep", {**search, "path": "elsewhere"})
    assert "ast-grep: " in tools.failure("ast_grep", {**search, "lang": "klingon"})


def test_of_what_is_found_in_code_the_beginning_is_kept(
    tools: GlobalTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It would never end by itself.
    program(tmp_path / "bin", "yes 'a.py:1:print()'", monkeypatch, "ast-grep")

    found = tools.text("ast_grep", {"pattern": "print()"}).splitlines()

    assert len(found) == 101
    assert found[-1] == "(Only the first 100 lines; narrow the search.)"


def test_without_the_program_it_is_said_what_to_use_instead(tmp_path: Path) -> None:
    # By an interpreter that has nothing beside it.
    called = subprocess.run(
        [Path(sys.executable).resolve(), "-B", "-c", "import ast_grep; ast_grep.run('print($A)')"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{SHIPPED}{os.pathsep}{SHIPPED_LIBRARY}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert called.returncode == 1
    assert "Use fs_grep" in called.stderr


# ---- issues


def program(
    directory: Path, text: str, monkeypatch: pytest.MonkeyPatch, name: str = "jira"
) -> None:
    """A stand-in for a program, first on the PATH."""
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(f"#!/bin/sh\n{text}\n")
    (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")


def test_issues_are_listed(
    tools: GlobalTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", 'printf "%s\\n" "$@"', monkeypatch)
    query = "project = OPS; rm -rf $HOME"

    said = tools.text("query_jira_issues", {"jql_query": query})

    assert said.splitlines() == ["issue", "list", "--plain", f"--jql={query}"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("No result found for given query", "No issue matches x"), ("401 Unauthorized", "401")],
)
def test_nothing_found_is_no_failure_of_the_query(
    tools: GlobalTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    program(tmp_path / "bin", f"echo '{text}' >&2; exit 1", monkeypatch)

    assert said in json.dumps(tools.call("query_jira_issues", {"jql_query": "x"}))


# ---- phones


@pytest.fixture
def twilio(tools: GlobalTools) -> Iterator[WebServer]:
    sent = json.dumps({"sid": "SM1", "status": "queued"})
    page = Page(sent, "application/json")
    with WebServer({"/2010-04-01/Accounts/AC1/Messages.json": page}) as server:
        tools.allow_private_addresses = True
        tools.set(
            {
                "TWILIO_ACCOUNT_SID": "AC1",
                "TWILIO_AUTH_TOKEN": "token",
                "TWILIO_FROM_NUMBER": "+15550100",
                "TWILIO_API_URL": server.url(""),
            }
        )
        yield server


@pytest.mark.parametrize(
    ("to", "sender"),
    [("+15550101", "+15550100"), ("whatsapp:+15550101", "whatsapp:+15550100")],
)
def test_messages_are_sent(tools: GlobalTools, twilio: WebServer, to: str, sender: str) -> None:
    said = tools.text("send_twilio", {"to_number": to, "message": "Tea & cake"})

    assert said == f"Sent to {to}: queued (SM1)"
    (visit,) = twilio.visits
    assert parse_qs(visit.body.decode()) == {"To": [to], "From": [sender], "Body": ["Tea & cake"]}
    assert visit.headers["authorization"] == "Basic QUMxOnRva2Vu"


@pytest.mark.parametrize("answer", ["[]", '{"sid": null}'])
def test_a_message_counts_as_sent_only_if_the_service_says_so(
    tools: GlobalTools, twilio: WebServer, answer: str
) -> None:
    (place,) = twilio.pages
    twilio.pages[place] = Page(answer, "application/json")

    said = tools.failure("send_twilio", {"to_number": "+1", "message": "half a \ud83d"})

    assert said == "Twilio did not say that it has sent the message"
    assert parse_qs(twilio.visits[0].body.decode())["Body"] == ["half a ?"]


# ---- what no program can be given


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
@pytest.mark.parametrize(
    ("tool", "parameter"),
    [
        ("ast_grep", "pattern"),
        ("execute_command", "command"),
        ("git_command", "command"),
        ("query_jira_issues", "jql_query"),
    ],
)
def test_a_text_that_no_program_can_be_given_is_refused(
    tools: GlobalTools,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
    parameter: str,
    text: str,
) -> None:
    program(tmp_path / "bin", "echo run", monkeypatch)
    program(tmp_path / "bin", "echo run", monkeypatch, "ast-grep")

    said = tools.failure(tool, {parameter: text}, auto_confirm=True)

    assert said == "refused: a NUL, or half of a surrogate pair, which no program can be given"
