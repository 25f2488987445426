"""Lines put together to entries: a stack trace or a multi-line message is one entry."""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from logformat import Line, parse

TRACEBACK = re.compile(r"\s*(?:\+ Exception Group )?Traceback \(most recent call last\):")
CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
# Exception groups draw their members with bars: `  | ExceptionGroup: …`.
FINAL_LINE = re.compile(r"(?:\s*\| )?([A-Za-z_].*)")
# Entries that may still get lines while others interleave, as processes share one log.
STILL_OPEN = 256


class Trace:
    """Follows a Python traceback line by line, up to its final exception line."""

    def __init__(self) -> None:
        self.final = ""
        self.complete = False
        self.chained = False

    def takes(self, text: str) -> bool:
        """True if the line belongs to the traceback; it is taken in then."""
        if self.complete:
            return self._chain(text)
        match = FINAL_LINE.fullmatch(text)
        if match and not TRACEBACK.match(text):
            self.final, self.complete, self.chained = match[1], True, False
        return True

    def _chain(self, text: str) -> bool:
        """After the final line: only blanks, and a further traceback announced as its chain."""
        stripped = text.strip()
        if not stripped or text[0] in " \t":
            return True
        if stripped in CHAINED:
            self.chained = True
            return True
        if self.chained and TRACEBACK.match(text):
            self.complete = False
            return True
        return False


@dataclass(slots=True)
class Entry:
    """One event of the log. Of a long entry only the first and last lines are kept."""

    number: int  # of its first line
    line: Line
    head: list[str]
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=3))
    size: int = 1
    trace: Trace | None = None

    @property
    def severity(self) -> str:
        return self.line.severity or "unknown"

    @property
    def gist(self) -> str:
        """What the entry is about: of a traceback its final line, else the message."""
        return (self.trace and self.trace.final) or self.line.message

    def extend(self, text: str) -> None:
        (self.head if self.size < 3 else self.tail).append(text)
        self.size += 1

    def sample(self) -> str:
        left_out = ["…"] if self.size > len(self.head) + len(self.tail) else []
        return "\n".join(text[:240] for text in [*self.head, *left_out, *self.tail]).rstrip()


def begins_entry(text: str, before: str, headed: bool) -> bool:
    """True if a file may be cut in front of this line, given the line before it."""
    line, previous = parse(text), parse(before)
    inside = previous.message[:1] in ("", " ", "\t") or TRACEBACK.match(previous.message)
    if inside or line.message[:1] in ("", " ", "\t") or line.detail:
        return False
    return line.headed or not headed


def entries(lines: Iterable[str], headed: bool, first_number: int = 1) -> Iterator[Entry]:
    """The entries of some lines, in order. `headed`: lines without a header continue one."""
    waiting: deque[Entry] = deque()
    by_source: dict[str, Entry] = {}
    current: Entry | None = None
    time = ""
    for number, text in enumerate(lines, first_number):
        line = parse(text)
        owner = by_source.get(line.source) if line.source else current
        if owner and continues(owner, line, headed):
            owner.extend(text)
            continue
        if line.detail or not line.message.strip():
            continue  # a blank line, or a detail whose entry is not in sight
        # Without a time of its own, an entry happened when the one before it did.
        time = line.time = line.time or time
        current = start(number, text, line)
        waiting.append(current)
        if line.source:
            by_source[line.source] = current
        if len(waiting) > STILL_OPEN:
            done = waiting.popleft()
            if by_source.get(done.line.source) is done:
                del by_source[done.line.source]
            yield done
    yield from waiting


def start(number: int, text: str, line: Line) -> Entry:
    entry = Entry(number, line, [text])
    if TRACEBACK.match(line.message):
        entry.trace = Trace()
        line.severity = line.severity or "error"
    elif TRACEBACK.match(line.exception):
        entry.trace = Trace()
        for inner in line.exception.splitlines()[1:]:
            entry.trace.takes(inner)
    return entry


def continues(entry: Entry, line: Line, headed: bool) -> bool:
    """True if a line belongs to an entry that has begun before."""
    text = line.message
    # A header of its own ends a traceback, unless each line of it carries one (syslog).
    if entry.trace and (not line.headed or same_shape(entry.line, line)):
        if entry.trace.takes(text):
            return True
        if TRACEBACK.match(text):
            return False
    if line.headed:
        return line.detail or text[:1] in (" ", "\t")
    if TRACEBACK.match(text):
        return adopts_traceback(entry)
    return text[:1] in (" ", "\t") or (headed and bool(text.strip()))


def same_shape(first: Line, line: Line) -> bool:
    """True for two header lines in a log that gives every line of a traceback a header."""
    return bool(first.source and TRACEBACK.match(first.message)) and not line.exception


def adopts_traceback(entry: Entry) -> bool:
    """A traceback below a logged error explains it; below an info line it stands for itself."""
    if entry.trace or not entry.line.headed:
        return False
    if entry.line.severity not in ("critical", "error", "warning"):
        return False
    entry.trace = Trace()
    return True
