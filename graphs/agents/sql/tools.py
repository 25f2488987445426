"""What the agent asks its database, the variable `dsn`."""

from __future__ import annotations

import os

from sleipnir.tool import guard

from sleipnir import sql


def list_tables() -> str:
    """List the tables and views with their schemas, as CSV."""
    return sql.tables(_dsn())


def describe_table(table: str) -> str:
    """Describe the columns of a table, as CSV: name, type, nullable, default, primary key.

    Args:
        table: Its name with the schema, as `list_tables` shows it.
    """
    return sql.columns(_dsn(), table)


def read_query(query: str) -> str:
    """Run one SELECT and return its rows as CSV, at most 1000; anything else is refused.

    Args:
        query: One statement that begins with SELECT.
    """
    statements = sql.statements(query)
    if not sql.is_reading(_dsn(), statements):
        raise SystemExit(
            "refused: only one statement that begins with SELECT, without a semicolon in it; "
            "use write_query to change something"
        )
    return sql.execute(_dsn(), statements, reads=True)


def write_query(query: str) -> str:
    """Run statements that change the database, all of them or none; a person is asked first.

    Args:
        query: The statements, in the dialect of the database.
    """
    statements = sql.statements(query)
    guard(f"run this SQL?\n{query}")
    return sql.execute(_dsn(), statements, reads=False)


def _dsn() -> str:
    return os.environ["LLM_AGENT_VAR_DSN"]
