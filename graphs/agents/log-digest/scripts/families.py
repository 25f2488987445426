"""Which messages are the same but for their values: the message with its values masked."""

import re
from functools import lru_cache

TIME = (
    r"\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?)?"
)
# The first alternative that fits wins, so the more specific ones come first.
VALUES = {
    "time": rf"{TIME}|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b",
    "uuid": r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b",
    # An apostrophe inside a word is no quote.
    "text": r'"(?:[^"\\]|\\.)*"|(?<!\w)\'(?:[^\'\\]|\\.)*\'(?!\w)|`[^`]*`|“[^”]*”|«[^»]*»',
    "url": r"\b[a-z][a-z0-9+.-]*://[^\s,;)\]>\"']+",
    "ip": (
        r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"
        r"|\[?(?<![\w:])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{1,4}(?![\w:])(?:\]:\d+)?"
    ),
    "path": r"(?<![\w/<>.])(?:[A-Za-z]:\\|~?/|\.{1,2}/)[\w.@%+~-]+(?:[/\\][\w.@%+~-]*)*",
    "hex": r"\b0[xX][0-9a-fA-F]+\b|\b(?=\d*[a-fA-F])(?=[a-fA-F]*\d)[0-9a-fA-F]{8,}\b",
    "n": r"\d+(?:[.,]\d+)*",
}
VALUE = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in VALUES.items()))
LONGEST = 200


@lru_cache(maxsize=4096)
def family(message: str) -> str:
    """The template of a message: `user <n> not found in <path>`."""
    masked = VALUE.sub(lambda match: f"<{match.lastgroup}>", message[:2000])
    masked = " ".join(masked.split()) or "(no message)"
    return masked if len(masked) <= LONGEST else masked[: LONGEST - 1] + "…"
