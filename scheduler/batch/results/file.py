"""The file that collects the results of a batch, one JSON line each."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import stat
from collections.abc import Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

from sleipnir.graphs.files import is_plain_or_new, open_output, reason
from sleipnir.graphs.state import encode
from sleipnir.scheduler.batch.finished import FinishedLine
from sleipnir.scheduler.batch.identity import attempt_of
from sleipnir.scheduler.batch.ledger import Item, Ledger
from sleipnir.scheduler.batch.reported import Reported, outcome_of
from sleipnir.scheduler.batch.results.lines import result_line
from sleipnir.scheduler.errors import SleipnirError, SubmissionRefused
from sleipnir.scheduler.runs.model import Usage
from sleipnir.scheduler.runs.reasons import reasons_of

# The most that the ledger stores as a number.
_MOST = 2**63 - 1
# The beginning of every line that is written here.
_BEGINNING = b'{"id":'


def _may_be_torn(text: bytes) -> bool:
    """Return whether a text may be the beginning of a result, and not a user's own data."""
    return text.startswith(_BEGINNING[: len(text)])


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)  # it could not be written again
    return number


def _is_number(value: object) -> bool:
    return type(value) is int and 0 < value <= _MOST


def _usage(document: Mapping[str, Any]) -> Usage:
    return Usage.reported(
        document["prompt_tokens"],
        document["completion_tokens"],
        document["cost_usd"],
        document.get("cached_tokens", 0),
        document.get("cache_written_tokens", 0),
    )


def _of_line(text: bytes, number: int) -> bytes:
    """Return a result as one of another line."""
    return encode({**json.loads(text), "line": number}).encode() + b"\n"


class ResultsFile:
    """The results file: keeps results of earlier starts; a newer result of a line supersedes them.

    A newer result is appended; `close` keeps only the newest of each line of the input, in input
    order if wanted, and replaces the file atomically. A command that dies before that leaves both,
    and the next one uses the last.
    """

    def __init__(self, path: Path, ledger: Ledger, batch: str, *, ordered: bool) -> None:
        """Open or create the file, and record its results in the ledger.

        Raises:
            SubmissionRefused: it has other contents, or another command is writing it.
        """
        self._path = path
        self._ledger = ledger
        self._ordered = ordered
        self._untidy = False
        self._size = 0
        self.removed = 0  # results of lines that are no longer in the input
        try:
            self._lasting = is_plain_or_new(path)  # neither a pipe nor a terminal
            self._file = open_output(path, "a+b" if self._lasting else "wb")
        except OSError as error:
            raise SubmissionRefused(f"cannot write {path}: {reason(error)}") from error
        try:
            if self._lasting:
                self._lock()
                self._load(batch)
        except BaseException:
            self._file.close()
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SubmissionRefused(f"another command is writing {self._path}") from None

    def _load(self, batch: str) -> None:
        start = 0
        self._file.seek(0)
        for number, text in enumerate(self._file, 1):
            if not text.endswith(b"\n") and _may_be_torn(text):
                break  # its command died while writing
            self._note(number, text, batch, start)
            start += len(text)
        self._file.truncate(start)
        self._size = start
        self._untidy |= self._ordered and start > 0  # it may be in another order

    def _note(self, number: int, text: bytes, batch: str, start: int) -> None:
        try:
            result = json.loads(text, parse_constant=_finite, parse_float=_finite)
            item, run_id, line = result["id"], result["run_id"], result.get("line")
            tries, version = result.get("try", 1), result.get("agent_version")
            reported = Reported(
                run_id,
                tries,
                outcome_of(result["status"], len(result["failures"])),
                _usage(result["usage"]),
                version,
            )
            known = (
                attempt_of(run_id, batch, item) is not None
                and (line is None or _is_number(line))
                and _is_number(tries)
                and isinstance(version, str | None)
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            known = False
        if not known:
            raise SubmissionRefused(
                f"{self._path}, line {number}, is not a result of the batch '{batch}'; "
                "name another file with -o, or move this one away"
            )
        self._ledger.note_reported(item, reported)
        # It may be written by another version.
        with suppress(KeyError, TypeError, AttributeError, ValueError, sqlite3.Error):
            self._ledger.note_reasons(item, line, reasons_of(result))
        self._untidy |= self._ledger.note_result(item, start, len(text), line)

    def document(self, item: Item) -> dict[str, Any]:
        """Return the newest result that the file has of a reported line."""
        found = self._ledger.result(item.item)
        assert found is not None
        self._file.seek(found.start)
        document: dict[str, Any] = json.loads(self._file.read(found.size))
        return {**document, "line": item.number}

    def append(self, finished: FinishedLine) -> None:
        """Append a result; it is in the file when this returns."""
        item, text = finished.item, result_line(finished).encode() + b"\n"
        self._file.write(text)
        self._file.flush()
        self._untidy |= self._ledger.note_result(item.item, self._size, len(text), item.number)
        self._size += len(text)

    def close(self) -> None:
        """Keep only the newest result of each line of the input, with the line's number there.

        Raises:
            SleipnirError: the file was replaced by another one, or cannot be written.
        """
        with self._file:
            if not self._lasting:
                return
            try:
                is_there = self._is_there()
                gone, moved = self._ledger.count_results()
                self.removed = gone
                if self._untidy or gone or moved or not is_there:
                    self._tidy()
            except OSError as error:
                raise SleipnirError(
                    f"cannot write {self._path}: {reason(error)}; run the same command again to "
                    "collect the results"
                ) from error

    def _is_there(self) -> bool:
        """Return whether the file has not been removed meanwhile.

        Raises:
            SleipnirError: there is another one in its place.
        """
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return False
        if not os.path.samestat(found, os.fstat(self._file.fileno())):
            raise SleipnirError(
                f"{self._path} was replaced by another file while the batch ran, and is left as it "
                "is; run the same command again with another -o to collect the results"
            )
        return True

    def _tidy(self) -> None:
        tidy = self._path.with_name(f".{self._path.name}.tidy")
        with tidy.open("wb") as target:
            for found in self._ledger.results(ordered=self._ordered):
                self._file.seek(found.start)
                text = self._file.read(found.size)
                target.write(text if found.said == found.number else _of_line(text, found.number))
            target.flush()
            os.fsync(target.fileno())
        tidy.chmod(stat.S_IMODE(os.fstat(self._file.fileno()).st_mode))
        tidy.replace(self._path)

    def __enter__(self) -> ResultsFile:
        return self

    def __exit__(self, _: object, error: object, __: object) -> None:
        if isinstance(error, SubmissionRefused):  # before anything was submitted
            self._file.close()
        else:
            self.close()
