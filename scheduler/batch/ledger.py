"""The ledger of a batch command: all its lines in a temporary file, so that memory stays flat.

A million lines, their runs and the positions of their results in the results file are rows of one
SQLite database without a journal. It lives as long as the command: what must be durable is in
Redis and in the results file.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from sleipnir.records import dataclass
from sleipnir.scheduler.batch.files import FILES_SCHEMA, FilesOfLines
from sleipnir.scheduler.batch.lines import Line
from sleipnir.scheduler.batch.reported import Reported
from sleipnir.scheduler.process.temporary import OwnDirectory
from sleipnir.scheduler.runs.reasons import Reason, ReasonCount

# open: its run is running; waiting: for a person; over: ended, but not yet reported in order
State: TypeAlias = Literal["todo", "open", "waiting", "over", "reported"]

_PAGE = 500

# The size of the empty tables and some lines.
_LEAST_PAGES = 16

_SCHEMA = """
CREATE TABLE lines (
    number  INTEGER PRIMARY KEY,
    item    TEXT NOT NULL UNIQUE,
    content TEXT NOT NULL,
    state   TEXT NOT NULL DEFAULT 'todo',
    run_id  TEXT,
    reported TEXT,
    redo    INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX runs ON lines (run_id) WHERE run_id IS NOT NULL;
CREATE TABLE repeats (digest TEXT PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE reasons (
    item TEXT NOT NULL, key TEXT NOT NULL, number INTEGER NOT NULL, outlived INTEGER NOT NULL,
    code TEXT NOT NULL, node TEXT, message TEXT NOT NULL, PRIMARY KEY (item, key)
) WITHOUT ROWID;
CREATE TABLE results (
    item TEXT PRIMARY KEY, start INTEGER NOT NULL, size INTEGER NOT NULL, number INTEGER
);
"""


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a batch."""

    number: int
    item: str  # its id within the batch
    content: str  # as `Line.to_json` writes it
    state: State
    run_id: str | None  # of the run that is followed or was reported
    reported: Reported | None = None  # its result, as last reported
    redo: bool = False  # run it from the start again, though it has finished


class ResultPosition(NamedTuple):
    """Where the results file has the newest result of a line."""

    start: int
    size: int
    said: int | None  # the line's number there; None: not readable
    number: int  # its number in the input


class DuplicateId(ValueError):
    """Two lines have the same id."""


class Ledger:
    """The lines of one batch command."""

    def __init__(self) -> None:
        self._directory = OwnDirectory()
        self._db = sqlite3.connect(
            self._directory.path / "ledger", isolation_level=None, check_same_thread=False
        )
        # It is deleted with the command: no need to protect it from crashes.
        self._db.executescript(
            f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; {_SCHEMA} {FILES_SCHEMA}"
        )
        (page_bytes,) = self._db.execute("PRAGMA page_size").fetchone()
        # An input may be endless; leave room on the disk for others, such as Redis.
        room = shutil.disk_usage(self._directory.path).free // 2
        self._db.execute(f"PRAGMA max_page_count = {max(room // page_bytes, _LEAST_PAGES)}")
        self._db.execute("BEGIN")
        self.files = FilesOfLines(self._db)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()
        self._directory.close()

    # ---- the input

    def add(self, line: Line) -> None:
        """Add a line.

        Raises:
            DuplicateId: names the line that has its id already.
        """
        if line.id is not None:
            self._insert_named(line, line.id)
            return
        digest = line.digest()
        if not self._insert(line, digest):
            # Equal lines without ids are numbered to tell them apart.
            (count,) = self._db.execute(
                "INSERT INTO repeats VALUES (?, 2) "
                "ON CONFLICT DO UPDATE SET count = count + 1 RETURNING count",
                (digest,),
            ).fetchone()
            self._insert_named(line, f"{digest}-{count}")

    def _insert_named(self, line: Line, item: str) -> None:
        if not self._insert(line, item):
            (first,) = self._db.execute(
                "SELECT number FROM lines WHERE item = ?", (item,)
            ).fetchone()
            raise DuplicateId(f"id '{item}' was already used in line {first}")

    def _insert(self, line: Line, item: str) -> bool:
        inserted = self._db.execute(
            "INSERT OR IGNORE INTO lines (number, item, content) VALUES (?, ?, ?)",
            (line.number, item, line.to_json()),
        )
        return inserted.rowcount == 1

    def __len__(self) -> int:
        (count,) = self._db.execute("SELECT count(*) FROM lines").fetchone()
        return int(count)

    # ---- lines by state

    def page(self, state: State, after: int = 0, limit: int = _PAGE) -> list[Item]:
        """Return lines of one state after line number `after`, in input order."""
        return self._items("state = ? AND number > ? ORDER BY number LIMIT ?", state, after, limit)

    def following(self, after: int, limit: int = _PAGE) -> list[Item]:
        """Return lines after line number `after`, in input order."""
        return self._items("number > ? ORDER BY number LIMIT ?", after, limit)

    def followed(self) -> Iterator[list[Item]]:
        """Yield lines whose runs are running or wait for a person, a page at a time."""
        last = ""
        while page := self._items(
            "state IN ('open', 'waiting') AND run_id > ? ORDER BY run_id LIMIT ?", last, _PAGE
        ):
            yield page
            last = page[-1].run_id or ""

    def not_good(self) -> Iterator[list[Item]]:
        """Yield reported lines that failed or are incomplete, a page at a time."""
        last = 0
        while page := self._items(
            "state = 'reported' AND json_extract(reported, '$[2]') != 'good' AND number > ? "
            "ORDER BY number LIMIT ?",
            last,
            _PAGE,
        ):
            yield page
            last = page[-1].number

    def of_run(self, run_id: str) -> Item | None:
        """Return the line whose run is followed or was reported, or None."""
        found = self._items("run_id = ?", run_id)
        return found[0] if found else None

    def mark(self, number: int, state: State, run_id: str | None) -> None:
        """Set the state and run of a line."""
        self._db.execute(
            "UPDATE lines SET state = ?, run_id = ? WHERE number = ?", (state, run_id, number)
        )

    def mark_redo(self, numbers: Iterable[int]) -> None:
        """Have finished lines run from the start again."""
        self._db.executemany(
            "UPDATE lines SET redo = 1 WHERE number = ?", ((number,) for number in numbers)
        )

    def report(self, number: int, state: State, reported: Reported) -> None:
        """Set the state of a line, and its result."""
        self._db.execute(
            "UPDATE lines SET state = ?, run_id = ?, reported = ? WHERE number = ?",
            (state, reported.run_id, reported.to_text(), number),
        )

    def _items(self, condition: str, *values: str | int) -> list[Item]:
        rows = self._db.execute(
            "SELECT number, item, content, state, run_id, reported, redo "
            f"FROM lines WHERE {condition}",
            values,
        )
        return [_item(row) for row in rows]

    # ---- why lines failed

    def note_reasons(self, item: str, number: int, reasons: Iterable[Reason]) -> None:
        """Replace the recorded reasons of an item: of its failure, and of failures of its nodes."""
        self.forget_reasons(item)
        self._db.executemany(
            "INSERT INTO reasons VALUES (?, ?, ?, ?, ?, ?, ?)",
            ((item, reason.key, number, *_stored(reason)) for reason in reasons),
        )

    def forget_reasons(self, item: str) -> None:
        """Remove the recorded reasons of an item whose run goes on."""
        self._db.execute("DELETE FROM reasons WHERE item = ?", (item,))

    def reasons(self) -> Iterator[ReasonCount]:
        """Yield why items failed, most frequent first; then failures that did not end runs."""
        rows = self._db.execute(
            "SELECT count(*) AS lines, min(number) AS first, outlived, code, node, message "
            "FROM reasons GROUP BY key ORDER BY outlived, lines DESC, first"
        )
        for lines, first, outlived, *parts in rows:
            yield ReasonCount(lines, first, Reason(bool(outlived), *parts))

    # ---- the results file

    def note_result(self, item: str, start: int, size: int, number: int | None) -> bool:
        """Record the position of an item's newest result, which is said to be of line `number`.

        Returns:
            False if it had none before.
        """
        before = self._db.execute("SELECT 1 FROM results WHERE item = ?", (item,)).fetchone()
        self._db.execute(
            "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?)", (item, start, size, number)
        )
        return before is not None

    def note_reported(self, item: str, reported: Reported) -> None:
        """Record what the results file says of a line; its run may have been retried since."""
        self._db.execute("UPDATE lines SET reported = ? WHERE item = ?", (reported.to_text(), item))

    def results(self, *, ordered: bool) -> Iterator[ResultPosition]:
        """Yield the newest results of lines of the input, in file or input order."""
        order = "lines.number" if ordered else "start"
        for row in self._db.execute(
            "SELECT start, size, results.number, lines.number "
            f"FROM results JOIN lines USING (item) ORDER BY {order}"
        ):
            yield ResultPosition(*row)

    def result(self, item: str) -> ResultPosition | None:
        """Return where the results file has the newest result of a line."""
        row = self._db.execute(
            "SELECT start, size, results.number, lines.number "
            "FROM results JOIN lines USING (item) WHERE item = ?",
            (item,),
        ).fetchone()
        return None if row is None else ResultPosition(*row)

    def has_results(self) -> bool:
        """Return whether the results file had any."""
        return self._db.execute("SELECT 1 FROM results LIMIT 1").fetchone() is not None

    def count_results(self) -> tuple[int, int]:
        """Return how many results are of no line of the input, and how many name another line."""
        (gone, moved) = self._db.execute(
            "SELECT count(*) FILTER (WHERE lines.item IS NULL), "
            "count(*) FILTER (WHERE lines.number IS NOT results.number AND lines.item IS NOT NULL) "
            "FROM results LEFT JOIN lines USING (item)"
        ).fetchone()
        return int(gone), int(moved)


def _stored(reason: Reason) -> Reason:
    """Return a reason without lone surrogates, which what comes from outside may have."""
    return reason._replace(message=reason.message.encode(errors="backslashreplace").decode())


def _item(row: tuple[int, str, str, State, str | None, str | None, int]) -> Item:
    number, item, content, state, run_id, reported, redo = row
    said = None if reported is None else Reported.from_text(reported)
    return Item(number, item, content, state, run_id, said, bool(redo))
