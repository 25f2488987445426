"""Runs SQL."""

# @env USQL_DSN!  The database: `sqlite:///PATH`, or a URL that SQLAlchemy or usql understands.

import os

from sleipnir.tool import guard

from sleipnir import sql


def run(code: str) -> str:
    """Run SQL and return the rows of its last statement as CSV.

    Args:
        code: One or more statements in the dialect of the database.
    """
    statements = sql.statements(code)
    dsn = os.environ["USQL_DSN"]
    reads = sql.is_reading(dsn, statements)
    if not reads:
        guard(f"run this SQL?\n{code}")
    return sql.execute(dsn, statements, reads=reads)
