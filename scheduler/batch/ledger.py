"""The ledger of a batch command: all its lines in a temporary file, so that memory stays flat.

A million lines, their runs and the positions of their results in the results file are rows of one
SQLite database without a journal. It lives as long as the command: what must be durable is in
Redis and in the results file.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Literal, TypeAlias

from sleipnir.records import dataclass
from sleipnir.scheduler.batch.lines import Line
from sleipnir.scheduler.runs.reasons import Reason, ReasonCount
from sleipnir.scheduler.temporary import OwnDirectory

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
    run_id  TEXT
);
CREATE INDEX followed ON lines (run_id) WHERE state IN ('open', 'waiting');
CREATE TABLE repeats (digest TEXT PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE reasons (
    item TEXT NOT NULL, key TEXT NOT NULL, number INTEGER NOT NULL, outlived INTEGER NOT NULL,
    code TEXT NOT NULL, node TEXT, message TEXT NOT NULL, PRIMARY KEY (item, key)
) WITHOUT ROWID;
CREATE TABLE results (item TEXT PRIMARY KEY, start INTEGER NOT NULL, size INTEGER NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a batch."""

    number: int
    item: str  # its id within the batch
    content: str  # as `Line.to_json` writes it
    state: State
    run_id: str | None  # of the run that is followed or was reported


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
        self._db.executescript(f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; {_SCHEMA}")
        (page_bytes,) = self._db.execute("PRAGMA page_size").fetchone()
        # An input may be endless; leave room on the disk for others, such as Redis.
        room = shutil.disk_usage(self._directory.path).free // 2
        self._db.execute(f"PRAGMA max_page_count = {max(room // page_bytes, _LEAST_PAGES)}")
        self._db.execute("BEGIN")

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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

    def of_run(self, run_id: str) -> Item | None:
        """Return the line whose run is followed, or None."""
        found = self._items("run_id = ? AND state IN ('open', 'waiting')", run_id)
        return found[0] if found else None

    def count(self, state: State) -> int:
        """Return how many lines are in a state."""
        (count,) = self._db.execute(
            "SELECT count(*) FROM lines WHERE state = ?", (state,)
        ).fetchone()
        return int(count)

    def mark(self, number: int, state: State, run_id: str | None) -> None:
        """Set the state and run of a line."""
        self._db.execute(
            "UPDATE lines SET state = ?, run_id = ? WHERE number = ?", (state, run_id, number)
        )

    def _items(self, condition: str, *values: str | int) -> list[Item]:
        rows = self._db.execute(
            f"SELECT number, item, content, state, run_id FROM lines WHERE {condition}", values
        )
        return [Item(*row) for row in rows]

    # ---- why lines failed

    def note_reasons(self, item: str, number: int, reasons: Iterable[Reason]) -> None:
        """Replace the recorded reasons of an item: of its failure, and of failures of its nodes."""
        self._db.execute("DELETE FROM reasons WHERE item = ?", (item,))
        self._db.executemany(
            "INSERT INTO reasons VALUES (?, ?, ?, ?, ?, ?, ?)",
            ((item, reason.key, number, *reason) for reason in reasons),
        )

    def reasons(self) -> Iterator[ReasonCount]:
        """Yield why items failed, most frequent first; then failures that did not end runs."""
        rows = self._db.execute(
            "SELECT count(*) AS lines, min(number) AS first, outlived, code, node, message "
            "FROM reasons GROUP BY key ORDER BY outlived, lines DESC, first"
        )
        for lines, first, outlived, *parts in rows:
            yield ReasonCount(lines, first, Reason(bool(outlived), *parts))

    # ---- the results file

    def note_result(self, item: str, start: int, size: int) -> bool:
        """Record the position of an item's newest result; return False if it had none before."""
        before = self._db.execute("SELECT 1 FROM results WHERE item = ?", (item,)).fetchone()
        self._db.execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?)", (item, start, size))
        return before is not None

    def note_reported(self, item: str, run_id: str, *, failed: bool) -> None:
        """Mark a line as reported; a failed one may have been retried since."""
        self._db.execute(
            "UPDATE lines SET state = ?, run_id = ? WHERE item = ?",
            ("todo" if failed else "reported", run_id, item),
        )

    def results(self, *, ordered: bool) -> Iterator[tuple[int, int]]:
        """Yield the positions of the newest results: start and size, in file or input order.

        Results whose lines are no longer in the input come first.
        """
        order = "number, start" if ordered else "start"
        yield from self._db.execute(
            f"SELECT start, size FROM results LEFT JOIN lines USING (item) ORDER BY {order}"
        )
