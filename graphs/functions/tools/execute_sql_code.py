"""Runs SQL."""

# @env USQL_DSN!  The database: `sqlite:///PATH`, or a URL that SQLAlchemy or usql understands.

from __future__ import annotations

import csv
import io
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from sleipnir.tool import guard

MAX_ROWS = 1000
BUSY_S = 30
SQLITE = "sqlite:///"


def run(code: str) -> str:
    """Run SQL and return the rows of its last statement as CSV.

    Args:
        code: One or more statements in the dialect of the database.
    """
    dsn = os.environ["USQL_DSN"]
    statements = list(_statements(code))
    if not statements:
        raise SystemExit("there is no statement to run")
    reads = len(statements) == 1 and statements[0].upper().startswith("SELECT")
    if not reads:
        guard(f"run this SQL?\n{code}")
    if dsn.startswith(SQLITE):
        return _on_sqlite(dsn, statements, reads)
    result = _on_sqlalchemy(dsn, statements, reads)
    return _with_usql(dsn, code) if result is None else result


def _statements(code: str) -> Iterator[str]:
    """The statements, parted where SQL parts them: not within quotes and comments."""
    whole = ""
    for part in code.split(";"):
        whole += part
        if sqlite3.complete_statement(f"{whole};"):
            if whole.strip():
                yield whole.strip()
            whole = ""
        else:
            whole += ";"
    if whole.strip(" ;\n\t"):
        yield whole.strip()


def _on_sqlite(dsn: str, statements: Sequence[str], reads: bool) -> str:
    path = Path(dsn[len(SQLITE) :])
    if reads and not path.is_file():
        raise SystemExit(f"there is no database {path}")
    # A reading one cannot change anything, whatever it calls.
    uri = f"file:{quote(str(path))}?mode={'ro' if reads else 'rwc'}"
    try:
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None)
        try:
            connection.execute("BEGIN")  # all of them, or none
            for statement in statements:
                cursor = connection.execute(statement)
            result = _result(cursor.description, cursor, cursor.rowcount)
            connection.execute("COMMIT")
            return result
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise SystemExit(f"the database says: {error}") from error


def _on_sqlalchemy(dsn: str, statements: Sequence[str], reads: bool) -> str | None:
    """None: the URL is not one of SQLAlchemy's, or it is not there."""
    try:
        import sqlalchemy  # noqa: PLC0415  (it may be missing)
    except ImportError:
        return None
    try:
        engine = sqlalchemy.create_engine(dsn)
    except ImportError as error:
        raise SystemExit(f"the database of USQL_DSN needs a driver: {error}") from error
    except (sqlalchemy.exc.ArgumentError, sqlalchemy.exc.NoSuchModuleError):
        return None
    try:
        with engine.connect() as connection:
            for statement in statements:
                found = connection.exec_driver_sql(statement)
            names = [(name,) for name in list(found.keys())] if found.returns_rows else None
            result = _result(names, found if names else (), found.rowcount)
            if not reads:
                connection.commit()
            return result
    except sqlalchemy.exc.SQLAlchemyError as error:
        raise SystemExit(f"the database says: {getattr(error, 'orig', None) or error}") from error
    finally:
        engine.dispose()


def _with_usql(dsn: str, code: str) -> str:
    if shutil.which("usql") is None:
        raise SystemExit(
            "the database of USQL_DSN needs SQLAlchemy (pip install 'sleipnir[sql]', with the "
            "driver of the database), or the program usql; neither is on this machine"
        )
    ended = subprocess.run(
        ["usql", "--no-psqlrc", "--csv", "--quiet", "--command", code, dsn],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if ended.returncode != 0:
        said = ended.stderr.decode("utf-8", errors="replace").strip()
        raise SystemExit(f"usql: {said.replace(dsn, 'USQL_DSN')}")
    return ended.stdout.decode("utf-8", errors="replace")


def _result(names: Sequence | None, rows: Iterable, changed: int) -> str:
    """The rows as CSV, or how many were changed."""
    if names is None:
        return f"{changed} row{'' if changed == 1 else 's'} changed" if changed >= 0 else "Done"
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([name[0] for name in names])
    for number, row in enumerate(rows):
        if number == MAX_ROWS:
            text.write(f"(Only the first {MAX_ROWS} rows; narrow the query.)\n")
            break
        table.writerow(row)
    return text.getvalue()
