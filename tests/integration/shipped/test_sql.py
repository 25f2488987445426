"""The agent `sql` on a SQLite database, its model scripted."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.support.conversations import converses
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, calls, says
from tests.support.shipped import Shipped, told

RAISE = "UPDATE main.orders SET amount = amount + 1 WHERE customer = 'Ann'"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as connection:
        connection.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, amount INT)"
        )
        connection.execute("""CREATE TABLE "Ann's items" (name TEXT)""")
        connection.executemany(
            "INSERT INTO orders (customer, amount) VALUES (?, ?)", [("Ann", 5), ("Bob", 7)]
        )
    connection.close()
    return file


def amounts(database: Path) -> list[int]:
    connection = sqlite3.connect(database)
    found = [row[0] for row in connection.execute("SELECT amount FROM orders ORDER BY id")]
    connection.close()
    return found


@pytest.mark.parametrize("url", ["sqlite:///{}", "sqlite+pysqlite:///{}"])
def test_it_reads_and_asks_a_person_before_it_changes_anything(
    engine: Engine, server: ModelServer, database: Path, url: str
) -> None:
    shipped = Shipped(engine)
    converses(
        server,
        "Raise the orders of Ann",
        calls(
            ("list_tables", {}),
            ("describe_table", {"table": "main.orders"}),
            ("describe_table", {"table": """main."Ann's items\""""}),
            ("describe_table", {"table": "main.orders'); DROP TABLE orders; --"}),
            ("read_query", {"query": "SELECT sum(amount) FROM main.orders"}),
            ("read_query", {"query": RAISE}),
        ),
        calls(("write_query", {"query": RAISE})),
        calls(("write_query", {"query": f"{RAISE} AND id = 1"})),
        says("Done."),
    )

    run_id = shipped.submit(
        "sql", "Raise the orders of Ann.", variables={"dsn": url.format(database)}
    )
    shipped.go_on(run_id)
    assert shipped.question() == f"run this SQL?\n{RAISE}"
    shipped.answer(run_id, "no")
    assert amounts(database) == [5, 7]
    assert shipped.question() == f"run this SQL?\n{RAISE} AND id = 1"
    run = shipped.answer(run_id, "yes")

    assert (run.status, run.output, amounts(database)) == ("succeeded", "Done.", [6, 7])
    tables, columns, quoted, injected, *results = told(server, "Raise the")
    rows, refused, declined, changed = results
    assert tables == "name,type\nmain.Ann's items,table\nmain.orders,table\n"
    header, *described = columns.splitlines()
    assert header == "name,type,nullable,default,pk"
    assert [line.split(",")[0] for line in described] == ["id", "customer", "amount"]
    assert quoted.startswith("name,type,nullable,default,pk\nname,TEXT,")
    assert "there is no table" in injected
    assert rows == "sum(amount)\n12\n"
    assert "refused: only one statement that begins with SELECT" in refused
    assert "declined" in declined
    assert changed == "1 row changed"


def test_without_a_database_it_is_not_submitted(engine: Engine) -> None:
    shipped = Shipped(engine)

    with pytest.raises(Exception, match="dsn"):
        shipped.submit("sql", "Which tables are there?")
