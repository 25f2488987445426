"""What a batch command knows of its lines, in a temporary file: memory stays flat.

A million lines, the runs they became and where their results stand in the results file are
rows of one SQLite database without a journal. It is as old as the command: what must survive
the command is in Redis and in the results file.
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

# open: its run is under way; waiting: for a person; over: but not yet reported, for want of order
State: TypeAlias = Literal["todo", "open", "waiting", "over", "reported"]

_PAGE = 500

# What the empty tables take, and some lines.
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
    item: str  # its identity within the batch
    content: str  # as `Line.to_json` writes it
    state: State
    run_id: str | None  # of the run that is followed, or was reported


class DuplicateId(ValueError):
    """Two lines have the same id."""


class Ledger:
    """The lines of one command."""

    def __init__(self) -> None:
        self._directory = OwnDirectory()
        self._db = sqlite3.connect(
            self._directory.path / "ledger", isolation_level=None, check_same_thread=False
        )
        # It is thrown away with the command: there is nothing to protect from a crash.
        self._db.executescript(f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; {_SCHEMA}")
        (page_bytes,) = self._db.execute("PRAGMA page_size").fetchone()
        # An input may have no end; others need room on that disk too, maybe Redis itself.
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
        """Take a line in.

        Raises:
            DuplicateId: naming the line that has its id already.
        """
        if line.id is not None:
            self._insert_named(line, line.id)
            return
        digest = line.digest()
        if not self._insert(line, digest):
            # Equal lines without ids are told apart by counting them.
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
        """Lines of one state that stand after line number `after`, in input order."""
        return self._items("state = ? AND number > ? ORDER BY number LIMIT ?", state, after, limit)

    def following(self, after: int, limit: int = _PAGE) -> list[Item]:
        """Lines that stand after line number `after`, in input order."""
        return self._items("number > ? ORDER BY number LIMIT ?", after, limit)

    def followed(self) -> Iterator[list[Item]]:
        """Lines whose runs are under way or wait for a person, a page at a time."""
        last = ""
        while page := self._items(
            "state IN ('open', 'waiting') AND run_id > ? ORDER BY run_id LIMIT ?", last, _PAGE
        ):
            yield page
            last = page[-1].run_id or ""

    def of_run(self, run_id: str) -> Item | None:
        """Return the line whose run is followed."""
        found = self._items("run_id = ? AND state IN ('open', 'waiting')", run_id)
        return found[0] if found else None

    def count(self, state: State) -> int:
        """Return how many lines are in a state."""
        (count,) = self._db.execute(
            "SELECT count(*) FROM lines WHERE state = ?", (state,)
        ).fetchone()
        return int(count)

    def mark(self, number: int, state: State, run_id: str | None) -> None:
        """Note what became of a line."""
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
        """Note why an item failed, and nodes of it that its run outlived; in place of before."""
        self._db.execute("DELETE FROM reasons WHERE item = ?", (item,))
        self._db.executemany(
            "INSERT INTO reasons VALUES (?, ?, ?, ?, ?, ?, ?)",
            ((item, reason.key, number, *reason) for reason in reasons),
        )

    def reasons(self) -> Iterator[ReasonCount]:
        """Yield why items failed, the commonest reason first; then what runs outlived."""
        rows = self._db.execute(
            "SELECT count(*) AS lines, min(number) AS first, outlived, code, node, message "
            "FROM reasons GROUP BY key ORDER BY outlived, lines DESC, first"
        )
        for lines, first, outlived, *parts in rows:
            yield ReasonCount(lines, first, Reason(bool(outlived), *parts))

    # ---- the results file

    def note_result(self, item: str, start: int, size: int) -> bool:
        """Note where the newest result of an item stands; False if it had none before."""
        before = self._db.execute("SELECT 1 FROM results WHERE item = ?", (item,)).fetchone()
        self._db.execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?)", (item, start, size))
        return before is not None

    def note_reported(self, item: str, run_id: str, *, failed: bool) -> None:
        """Note that a line's result is in the file; a failed one may have been retried since."""
        self._db.execute(
            "UPDATE lines SET state = ?, run_id = ? WHERE item = ?",
            ("todo" if failed else "reported", run_id, item),
        )

    def results(self, *, ordered: bool) -> Iterator[tuple[int, int]]:
        """Yield where the newest results stand: start and size, in file or in input order.

        Results of lines that are in the file only come first.
        """
        order = "number, start" if ordered else "start"
        yield from self._db.execute(
            f"SELECT start, size FROM results LEFT JOIN lines USING (item) ORDER BY {order}"
        )
