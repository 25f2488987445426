"""Runs SQL for tools: with Python's sqlite3 for `sqlite:///PATH`, with SQLAlchemy, or with usql."""

from __future__ import annotations

import csv
import io
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

MAX_ROWS = 1000
MAX_CHARACTERS = 1024 * 1024  # for all rows together
MAX_CELL = 64 * 1024  # for one value
BUSY_S = 30
SQLITE = "sqlite:///"
# Everybody on the machine can read the arguments of a program.
_PASSWORD = re.compile(r":(//)?[^/@:]*:[^/@]+@|[?&;](password|passwd|pwd|pass)=", re.IGNORECASE)
_NAME = re.compile(r"(\w+\.)?[\w$]+")


def statements(code: str) -> list[str]:
    """Split code into statements, except within quotes and comments.

    Ends the tool if there is none.
    """
    _require_text(code)
    found = list(_statements(code))
    if not found:
        raise SystemExit("there is no statement to run")
    return found


def is_reading(dsn: str, wanted: Sequence[str]) -> bool:
    """Return whether it is a single SELECT, as this database reads it.

    Databases differ in what they take as a quote, for instance `$$` and `\\'`: a semicolon that is
    quoted here might end the SELECT there. SQLite reads it as we do, and is opened read-only.
    """
    one = len(wanted) == 1 and wanted[0].upper().startswith("SELECT")
    return one and (dsn.startswith(SQLITE) or ";" not in wanted[0])


def execute(dsn: str, wanted: Sequence[str], *, reads: bool) -> str:
    """Run statements, all or none; return the last one's rows as CSV, or how many rows changed.

    Args:
        dsn: `sqlite:///PATH`, or a URL that SQLAlchemy or usql understands.
        wanted: from `statements`.
        reads: nothing may be changed, whatever they say; with usql this is up to the database.
    """
    if dsn.startswith(SQLITE):
        return _on_sqlite(dsn, wanted, reads)
    result = _on_sqlalchemy(dsn, wanted, reads)
    if result is not None:
        return result
    if any("\\" in statement for statement in wanted):
        raise SystemExit("refused: a backslash, with which usql would run commands of its own")
    return _with_usql(dsn, ";\n".join(wanted))


def tables(dsn: str) -> str:
    """Return the tables and views, one per line, each with its schema."""
    if dsn.startswith(SQLITE):
        query = (
            "SELECT 'main.' || name AS name, type FROM sqlite_master "
            "WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name"
        )
        return _on_sqlite(dsn, [query], True)
    engine = _engine(dsn)
    if engine is None:
        return _with_usql(dsn, r"\dt")
    return _with_engine(engine, _listed)


def columns(dsn: str, table: str) -> str:
    """Return the columns of a table: name, type, nullable, default, primary key."""
    _require_text(table)
    schema, _, name = table.replace('"', "").rpartition(".")
    if dsn.startswith(SQLITE):
        quoted = name.replace("'", "''")
        query = (
            'SELECT name, type, NOT "notnull" AS nullable, dflt_value AS "default", pk '
            f"FROM pragma_table_info('{quoted}')"
        )
        found = _on_sqlite(dsn, [query], True)
        if len(found.splitlines()) < 2:
            raise SystemExit(f"there is no table {table}")
        return found
    engine = _engine(dsn)
    if engine is None:
        # It would run what else stands there.
        if not _NAME.fullmatch(table):
            raise SystemExit(f"not a table name that usql understands: {table}")
        return _with_usql(dsn, rf"\d {table}")
    return _with_engine(engine, lambda connection: _described(connection, schema or None, name))


def _require_text(code: str) -> None:
    """End the tool if no database can be given this."""
    if "\0" in code or any("\ud800" <= character <= "\udfff" for character in code):
        raise SystemExit("refused: a NUL, or half of a surrogate pair, which SQL cannot hold")


def _statements(code: str) -> Iterator[str]:
    """Yield the statements, split except within quotes and comments."""
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
    # A read-only connection cannot change anything, whatever the statement calls.
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
    """Run the statements; None: the URL is not one of SQLAlchemy's, or SQLAlchemy is missing."""
    engine = _engine(dsn)
    if engine is None:
        return None

    def run(connection: Any) -> str:
        for statement in statements:
            found = connection.exec_driver_sql(statement)
        names = [(name,) for name in list(found.keys())] if found.returns_rows else None
        result = _result(names, found if names else (), found.rowcount)
        if not reads:
            connection.commit()
        return result

    return _with_engine(engine, run)


def _engine(dsn: str) -> Any:
    """Return the engine; None: the URL is not one of SQLAlchemy's, or SQLAlchemy is missing."""
    try:
        import sqlalchemy  # noqa: PLC0415  (it may be missing)
    except ImportError:
        return None
    try:
        return sqlalchemy.create_engine(dsn)
    except ImportError as error:
        raise SystemExit(f"the database needs a driver: {error}") from error
    except (sqlalchemy.exc.ArgumentError, sqlalchemy.exc.NoSuchModuleError):
        return None
    except ValueError as error:  # for example, a port that is not a number
        raise SystemExit("the URL of the database is not one: check its host and port") from error


def _with_engine(engine: Any, use: Callable[[Any], str]) -> str:
    import sqlalchemy  # noqa: PLC0415  (an engine exists, so it is installed)

    try:
        with engine.connect() as connection:
            return use(connection)
    except sqlalchemy.exc.NoSuchTableError as error:
        raise SystemExit(f"there is no table {error}") from error
    except sqlalchemy.exc.SQLAlchemyError as error:
        raise SystemExit(f"the database says: {getattr(error, 'orig', None) or error}") from error
    finally:
        engine.dispose()


def _listed(connection: Any) -> str:
    import sqlalchemy  # noqa: PLC0415  (installed, as above)

    inspector = sqlalchemy.inspect(connection)
    rows = [
        (f"{schema}.{name}", kind)
        for schema in inspector.get_schema_names()
        if schema not in ("information_schema", "pg_catalog", "performance_schema", "sys")
        for kind, names in (
            ("table", inspector.get_table_names(schema)),
            ("view", inspector.get_view_names(schema)),
        )
        for name in names
    ]
    return _result([("name",), ("type",)], rows, 0)


def _described(connection: Any, schema: str | None, table: str) -> str:
    import sqlalchemy  # noqa: PLC0415  (installed, as above)

    inspector = sqlalchemy.inspect(connection)
    keys = inspector.get_pk_constraint(table, schema)["constrained_columns"]
    rows = [
        (each["name"], each["type"], each["nullable"], each["default"], each["name"] in keys)
        for each in inspector.get_columns(table, schema)
    ]
    return _result([(name,) for name in ("name", "type", "nullable", "default", "pk")], rows, 0)


def _with_usql(dsn: str, code: str) -> str:
    if shutil.which("usql") is None:
        raise SystemExit(
            "the database needs SQLAlchemy (pip install 'sleipnir[sql]', with the "
            "driver of the database), or the program usql; neither is on this machine"
        )
    if _PASSWORD.search(dsn):
        raise SystemExit(
            "refused: all users of this machine could read the password in the URL while usql "
            "runs; put it into ~/.usqlpass (PROTOCOL:HOST:PORT:DATABASE:USER:PASSWORD, chmod 600) "
            "and not into the URL, or use SQLAlchemy (pip install 'sleipnir[sql]')"
        )
    ended = subprocess.run(
        ["usql", "--no-psqlrc", "--csv", "--quiet", "--command", code, dsn],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if ended.returncode != 0:
        said = ended.stderr.decode("utf-8", errors="replace").strip()
        raise SystemExit(f"usql: {said.replace(dsn, '(the database)')}")
    return ended.stdout.decode("utf-8", errors="replace")


def _result(names: Sequence | None, rows: Iterable, changed: int) -> str:
    """Return the rows as CSV, or how many were changed."""
    if names is None:
        return f"{changed} row{'' if changed == 1 else 's'} changed" if changed >= 0 else "Done"
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([name[0] for name in names])
    for number, row in enumerate(rows):
        if number == MAX_ROWS or text.tell() > MAX_CHARACTERS:
            text.write(f"(Only the first {number} rows; narrow the query.)\n")
            break
        table.writerow([_cell(value) for value in row])
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Return a value as the csv module writes it; a long one is cut."""
    if not isinstance(value, (str, bytes)) or len(value) <= MAX_CELL:
        return value
    unit = "bytes" if isinstance(value, bytes) else "characters"
    return f"{value[:MAX_CELL]!s}… ({len(value)} {unit} in all)"
