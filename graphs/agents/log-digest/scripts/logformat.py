"""One line of a log: when, how severe, from whom, and what it says.

Understood are ISO and syslog timestamps in front of a line (with and without `<priority>`),
JSON objects, logfmt, Python's `LEVEL:logger:message`, and the habits of PostgreSQL, Redis,
nginx, Apache, Kubernetes and access logs. Anything else is a line without a header.
"""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

SEVERITIES = ("critical", "error", "warning", "info", "debug")  # worst first

LEVELS = {
    "critical": "emerg emergency alert crit critical fatal panic",
    "error": "err error severe",
    "warning": "warn warning",
    "info": "notice info information log",
    "debug": "debug trace verbose fine finer finest debug1 debug2 debug3 debug4 debug5",
}
SEVERITY_OF = {word: severity for severity, words in LEVELS.items() for word in words.split()}
SYSLOG_SEVERITIES = ("critical",) * 3 + ("error", "warning", "info", "info", "debug")
KLOG_SEVERITIES = {"I": "info", "W": "warning", "E": "error", "F": "critical"}
REDIS_SEVERITIES = {"#": "warning", "*": "info", "-": "debug", ".": "debug"}
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


@dataclass(slots=True)
class Line:
    """A parsed line. `time` sorts and cuts as text; without a year in syslog's own form."""

    message: str
    time: str = ""  # "2024-05-31 23:59:58", "05-31 23:59:58", or "" when unknown
    severity: str = ""  # one of SEVERITIES, or "" when the line does not say
    source: str = ""  # who logged it, as far as the header tells: process, pid, logger
    headed: bool = False  # begins an entry of its own
    detail: bool = False  # explains the previous entry of the same source
    exception: str = ""  # a stack trace carried inside a JSON object


ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

MONTH = "|".join(MONTHS)
CLOCK = r"\d\d:\d\d(?::\d\d)?"
PREFIX = re.compile(r"<(?P<priority>\d{1,3})>(?P<version>1 )?")
ISO = re.compile(
    r"(?:\[|\(|time=\"?|ts=\"?)?"
    rf"(\d{{4}})[-/](\d\d)[-/](\d\d)([T ])({CLOCK})(?:[.,]\d+)?"
    r" ?(?:Z\b|UTC\b|GMT\b|[A-Z]{2,3}T\b|[+-]\d\d:?\d\d)?\"?"
)
BSD = re.compile(rf"({MONTH}) {{1,2}}(\d{{1,2}}) ({CLOCK})(?:\.\d+)?(?: (\d{{4}}))?")
APACHE = re.compile(rf"\[[A-Z][a-z]{{2}} ({MONTH}) (\d\d) ({CLOCK})(?:\.\d+)? (\d{{4}})\]")
REDIS = re.compile(rf"(\d+:[A-Z]) (\d\d) ({MONTH}) (\d{{4}}) ({CLOCK})(?:\.\d+)? ([#*.-]) ")
KLOG = re.compile(rf"([IWEF])(\d\d)(\d\d) ({CLOCK})(?:\.\d+)? +\d+ \S+:\d+\] ?")
ACCESS = re.compile(
    rf"\S+ \S+ \S+ \[(\d\d)/({MONTH})/(\d{{4}}):({CLOCK}) [+-]\d{{4}}\] (\".*\" (\d{{3}}) .*)"
)
RFC5424 = re.compile(r" (\S+) (\S+) (\S+) (\S+) (?:-|(?:\[(?:[^\]\\]|\\.)*\])+)(?: \ufeff?(.*))?$")
# Between a timestamp and the rest. One blank only: more of them mark a continuation.
SEPARATOR = re.compile(r"^(?:\]|\)|:| -| \|)? ?")
SYSLOG_TAG = re.compile(r" ([\w.:-]+) ([\w./@()-]+?(?:\[\d+\])?):(?: (.*))?$")

WORDS = "|".join(sorted((w for w in SEVERITY_OF if w != "log"), key=len, reverse=True))
# A level is a word in brackets, a word in capitals, or the value of `level=`.
LEVEL = re.compile(
    rf"(?i:[\[(<](?:[\w.-]+:)?(?P<boxed>{WORDS})[\])>])"
    rf"|(?i:\b(?:level|lvl|severity)=\"?(?P<named>{WORDS})\b\"?)"
    rf"|(?<![\w./-])(?P<loud>{WORDS.upper()})(?=[\s:\]/|)>,-]|$)"
)
LEADING_LEVEL = re.compile(rf"(?i:({WORDS})): ")
BARE_LEVEL = re.compile(rf"\[?(?:{WORDS.upper()})(?:\]|:|\s)")
POSTGRES = re.compile(
    r"(DEBUG\d?|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC|"
    r"(DETAIL|HINT|STATEMENT|CONTEXT|QUERY|LOCATION)):  "
)
LOGFMT = re.compile(r'(?<![\w.@-])([\w.@-]++)=("(?:[^"\\]|\\.)*"|\S*)')
LOGFMT_START = re.compile(r"[A-Za-z@_][\w.@-]*=")
LOGFMT_LEVEL = re.compile(r"\b(?:level|lvl|severity)=")
PID = re.compile(r"\[\d+\]")

DENIAL = re.compile(r"(?i)\b(?:no|0|zero|without) (?:errors?|failures?)\b")
ERROR_WORD = re.compile(
    r"(?i:\b(?:error|failed|failure|fatal|panic|exception|segfault|core dumped|out of memory)\b)"
    r"|^[\w.]*(?:Error|Exception)\b"
)
WARNING_WORD = re.compile(r"(?i)\b(?:warning|warn|deprecated|retrying|timed out|refused|denied)\b")


def parse(text: str) -> Line:
    """Read one line, without its line break."""
    if "\x1b" in text:
        text = ANSI.sub("", text)
    if text[:1] == "{":
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return parse_record(value)
    elif LOGFMT_START.match(text) and LOGFMT_LEVEL.search(text):
        return parse_record({key: unquoted(value) for key, value in LOGFMT.findall(text)})
    return parse_plain(text)


def parse_plain(text: str) -> Line:
    if not text or text[0] in " \t":
        return Line(text)
    severity = ""
    prefix = PREFIX.match(text)
    if prefix:
        severity = SYSLOG_SEVERITIES[int(prefix["priority"]) % 8]
        text = text[prefix.end() :]
    line = iso_line(text, bool(prefix and prefix["version"])) or other_stamp(text)
    if line is None:
        line = Line(text, headed=bool(prefix or BARE_LEVEL.match(text)))
    line.severity = line.severity or severity
    if not line.severity and not line.detail:
        find_level(line)
    return line


def iso_line(text: str, is_5424: bool) -> Line | None:
    match = ISO.match(text)
    if not match:
        return None
    year, month, day, joint, clock = match.groups()
    line = Line(text[match.end() :], f"{year}-{month}-{day} {seconds(clock)}", headed=True)
    if is_5424 and (fields := RFC5424.match(line.message)):
        line.source, line.message = f"{fields[2]}[{fields[3]}]", fields[5] or ""
    elif postgres := POSTGRES.search(line.message, 0, 160):
        source = PID.search(line.message, 0, postgres.start())
        line.source = source[0] if source else ""
        line.severity = SEVERITY_OF.get(postgres[1].lower(), "")
        line.detail = bool(postgres[2])
        line.message = line.message[postgres.end() :]
    elif joint != "T" or not split_tag(line):
        line.message = SEPARATOR.sub("", line.message, count=1)
    return line


def other_stamp(text: str) -> Line | None:
    """Stamps that spell the month."""
    if match := BSD.match(text):
        line = Line(text[match.end() :], stamp(*match.groups()), headed=True)
        if not split_tag(line):
            line.message = SEPARATOR.sub("", line.message, count=1)
        return line
    if match := REDIS.match(text):
        source, day, month, year, clock, mark = match.groups()
        when = stamp(month, day, clock, year)
        return Line(text[match.end() :], when, REDIS_SEVERITIES[mark], source, headed=True)
    if match := APACHE.match(text):
        return Line(text[match.end() :].lstrip(), stamp(*match.groups()), headed=True)
    if match := KLOG.match(text):
        letter, month, day, clock = match.groups()
        when = f"{month}-{day} {seconds(clock)}"
        return Line(text[match.end() :], when, KLOG_SEVERITIES[letter], headed=True)
    if match := ACCESS.match(text):
        day, month, year, clock, request, status = match.groups()
        severity = {"5": "error", "4": "warning"}.get(status[0], "info")
        return Line(request, stamp(month, day, clock, year), severity, headed=True)
    return None


def stamp(month: str, day: str, clock: str, year: str | None = None) -> str:
    date = f"{MONTHS.index(month) + 1:02}-{int(day):02}"
    return f"{year}-{date} {seconds(clock)}" if year else f"{date} {seconds(clock)}"


def seconds(clock: str) -> str:
    return clock if len(clock) == 8 else f"{clock}:00"


def split_tag(line: Line) -> bool:
    """Take syslog's `host process[pid]:` off the message; False if it is not there."""
    match = SYSLOG_TAG.match(line.message)
    if not match or match[1].lower() in SEVERITY_OF:
        return False
    line.source, line.message = match[2], match[3] or ""
    return True


def find_level(line: Line) -> None:
    """Take the level off the message; without one, judge by its words."""
    if line.message[:1] in (" ", "\t"):
        return  # the line continues another one
    match = LEADING_LEVEL.match(line.message) or LEVEL.search(line.message, 0, 120)
    if match:
        line.severity = SEVERITY_OF[next(word for word in match.groups() if word).lower()]
        line.message = line.message[match.end() :].lstrip(" \t:|]>)/-")
        return
    line.severity = judge(line.message)


def judge(message: str) -> str:
    """The severity the words of a message suggest, or ""."""
    words = DENIAL.sub("", message)
    if ERROR_WORD.search(words):
        return "error"
    return "warning" if WARNING_WORD.search(words) else ""


LEVEL_KEYS = ("level", "severity", "lvl", "levelname", "log.level", "loglevel", "severityText")
MESSAGE_KEYS = ("message", "msg", "event", "text", "body", "log", "error")
TIME_KEYS = ("timestamp", "time", "ts", "@timestamp", "datetime", "asctime", "date", "t")
EXCEPTION_KEYS = ("exc_info", "exception", "traceback", "stack_trace", "stack", "exc_text")
SOURCE_KEYS = ("logger", "name", "component", "service", "process")


def parse_record(record: dict[str, Any]) -> Line:
    level = first(record, LEVEL_KEYS)
    message = first(record, MESSAGE_KEYS)
    if isinstance(log := record.get("log"), dict):  # {"log": {"level": …}}
        level = level if level is not None else log.get("level")
        message = first(record, tuple(key for key in MESSAGE_KEYS if key != "log"))
    text = message.rstrip("\n") if isinstance(message, str) else json.dumps(message or record)
    exception = first(record, EXCEPTION_KEYS)
    exception = whole(exception) if isinstance(exception, str) else ""
    line = Line(
        message=whole(text),
        time=record_time(first(record, TIME_KEYS)),
        severity=record_severity(level),
        source=str(first(record, SOURCE_KEYS) or ""),
        headed=True,
        exception=exception,
    )
    if not line.severity:
        # A container runtime wraps lines that have headers of their own.
        inner = parse_plain(line.message)
        line.severity = inner.severity or ("error" if line.exception else "")
        line.message = inner.message if inner.headed else line.message
    return line


def first(record: dict[str, Any], keys: tuple[str, ...]) -> Any:
    return next((record[key] for key in keys if record.get(key) is not None), None)


def whole(text: str) -> str:
    """JSON can spell halves of characters, which no encoding takes."""
    return text.encode("utf-8", "replace").decode("utf-8")


def unquoted(value: str) -> str:
    """A value of logfmt."""
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value[:1] == '"' else value


def record_severity(level: Any) -> str:
    """Names, syslog numbers (0 to 7) and the tens of bunyan and pino (10 to 60)."""
    if isinstance(level, str) and not level.isdecimal():
        return SEVERITY_OF.get(level.lower(), "")
    if isinstance(level, (int, str)) and not isinstance(level, bool):
        number = int(level)
        if 0 <= number <= 7:
            return SYSLOG_SEVERITIES[number]
        tens = {1: "debug", 2: "debug", 3: "info", 4: "warning", 5: "error", 6: "critical"}
        return tens.get(number // 10, "")
    return ""


def record_time(value: Any) -> str:
    """ISO text or seconds, milli-, micro- or nanoseconds since 1970 (shown as UTC)."""
    if isinstance(value, str) and (match := ISO.match(value)):
        return f"{match[1]}-{match[2]}-{match[3]} {seconds(match[5])}"
    try:
        number = float(value)
        for _ in range(3):
            number /= 1000 if number > 1e11 else 1
        return datetime.fromtimestamp(number, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (TypeError, ValueError, OverflowError, OSError):
        return ""
