"""The product says things in the words of the field: phrases it has given up do not come back."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.pages import ROOT, TEXTS

# Phrases of help, messages and documentation that were given up, and what is said instead.
RETIRED_PHRASES = {
    "broken off: nobody waits": "cancelled: the run no longer needs this reply",
    "does not answer as it should": "unexpected reply from …",
    "does not tell its format": "cannot tell the format of …",
    "does not tell its version": "does not report its version",
    "forgot the session": "lost the session",
    "go on with: sleipnir": "continue with: sleipnir",
    "goes on for more than": "is longer than",
    "is paused by command": "is paused manually",
    "is there, and cannot serve": "cannot serve requests now",
    "its turn has not come": "it is queued for …",
    "kept by itself any more": "no longer stored separately",
    "leads nowhere": "broken symlink; cannot be resolved",
    "led nowhere": "selected no next node",
    "let it be used once more": "renew it",
    "link leaves": "the symlink leads outside …",
    "make it anew": "recreate it",
    "makes it anew": "recreates it",
    "makes no sense": "is invalid",
    "making them anew": "recreating them",
    "more: -vv: tracebacks": "Print more; -vv also prints tracebacks.",
    "nobody collects": "nothing collects its results",
    "nobody is there": "no person is available",
    "nobody knowing why": "for unknown reasons",
    "nobody saw": "is unknown",
    "nobody sees to": "… are not handled",
    "nobody to take it": "no worker is running",
    "nobody watches": "has no timer; cannot start the watchdog",
    "not kept any more": "no longer stored; expired",
    "nothing is heard from": "stopped responding",
    "nothing shows that it was": "it is not proved that …",
    "nothing will forget it": "has no retention timer",
    "output for machines": "Print JSON.",
    "see how it stands": "check its progress",
    "seems to be there to take it": "no worker seems to be running",
    "sees to time limits": "handles timeouts",
    "should not have happened": "This is a bug",
    "somebody else answered": "already answered or withdrawn",
    "stay at home": "are not packed",
    "stays for ever": "never expires",
    "stood still for": "did not respond for",
    "take its replies from": "replay",
    "takes no answers": "accepts no answers",
    "took down the process": "killed its isolated process",
    "tools that want consent": "a tool that requires confirmation",
    "waits for no answer": "has no open question",
    "wants a password, or another": "Redis authentication failed",
    "ways form a circle": "edges form a cycle",
    "went away": "disconnected",
    "what models say while they say it": "model replies as they are generated",
    "would be forgotten": "has a retention timer",
    "would stay for ever": "never expires",
}
RETIRED_PHRASE = re.compile("|".join(map(re.escape, RETIRED_PHRASES)))
# "Is no number": write "is not a valid number". "There is no …", "no longer" and "no value of" are
# fine.
IS_NO = re.compile(r"(?<![Tt]here )\b(?:is|are) no (?!longer\b|value of\b)\w+")

# Identifiers and names of files that were given up, and what they are called instead.
RETIRED_NAMES = {
    "AgentCache": "BundleCache",
    "Answered": "Completed",
    "Audit": "ConsistencyCheck",
    "Endings": "CompletionFeed",
    "HASTY": "RETRY_BRIEFLY",
    "LOST_IN_COMPANY": "ISOLATED_AFTER_LOSSES",
    "LimitBook": "RateLimiter",
    "McpOffer": "ResolvedTools",
    "Offer": "OfferedFunction",
    "Patience": "RetryWhileUnavailable",
    "Speech": "TokenStream",
    "Standing": "RunSummary",
    "Surroundings": "ToolContext",
    "Tariff": "Pricing",
    "Terms": "BatchOptions",
    "Timekeeper": "ClockMonitor",
    "UNPROVED": "INCONCLUSIVE",
    "UnpackedAgent": "LoadedAgent",
    "Voice": "StreamPrinter",
    "KnowledgeNotes": "PendingPointers",
    "ModelsByHand": "CommandModels",
    "OwnFigures": "SelfMetrics",
    "SecondChances": "Reruns",
    "_sort_out": "_reconcile",
    "accuse_visit": "record_crash",
    "acquit": "clear_crashes",
    "ask_beside": "ask_separately",
    "batch_patience_s": "batch_max_wait_s",
    "break_off": "interrupt_visit",
    "disown_partition": "release_partition",
    "end_by": "die_by_signal",
    "end_of_speech": "end_of_token_stream",
    "follows_speech": "streams_replies",
    "give_back": "return_credit or requeue",
    "hear_termination": "install_signal_handlers",
    "is_looked_after": "has_live_scheduler",
    "made_when_used": "lazy_object",
    "make_runtime": "make_services",
    "minding_readers": "end_on_broken_pipe",
    "next_is_heeded": "next_has_effect",
    "outlived_documents": "tolerated_failures",
    "patience_ms": "max_wait_ms",
    "patience_s": "max_wait_s",
    "put_off": "shift_timers",
    "recall_calls": "wake_calls",
    "remove_leftovers": "evict_unused",
    "return_visit": "requeue_visit",
    "row_again": "restore_wait",
    "say_what_is_left": "report_still_running",
    "say_who_goes_on": "hint_missing_process",
    "second_chances": "rerun",
    "settle_call": "release_call",
    "sort_out_step": "partition_step",
    "take_along": "bundle_documents",
    "take_in": "load_input",
    "take_in_orphans": "adopt_orphans",
    "take_up_map": "resume_map",
    "visit_again": "restore_visit",
    "worth_a_look": "representative_node",
}
RETIRED_NAME = re.compile(rf"(?<!\w)(?:{'|'.join(RETIRED_NAMES)})(?!\w)")
# Not pages: a sentence may begin with any word.
SOURCES = [
    file
    for package in ("graphs", "scheduler", "worker", "sleipnir", "tests", "docs")
    for file in (ROOT / package).rglob("*")
    if file.suffix in (".py", ".lua", ".yaml") and not file.is_symlink()
]

PRODUCT = [
    file
    for package in ("graphs", "scheduler", "worker")
    for file in (ROOT / package).rglob("*")
    if file.suffix in (".py", ".lua", ".sh", ".ts")
]
COMMENT = re.compile(r"^ *(?:--|#|//).*$", re.MULTILINE)


def literals(file: Path) -> Iterator[str]:
    """The texts in a source file, docstrings left out; what an f-string fills in is `{}`."""
    if file.suffix != ".py":
        yield COMMENT.sub("", file.read_text(encoding="utf-8"))
        return
    tree = ast.parse(file.read_text(encoding="utf-8"))
    ignored = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            ignored |= set(map(id, node.values))
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and id(node) not in ignored:
            yield str(node.value)


@cache
def texts() -> list[tuple[str, str]]:
    """Where a text stands, and it on one line: what the product says, and the documentation."""
    said = [(str(file.relative_to(ROOT)), text) for file in PRODUCT for text in literals(file)]
    return [(place, " ".join(text.split())) for place, text in (*said, *TEXTS.items())]


def test_retired_phrases_do_not_come_back() -> None:
    found = [
        f"{place}: '{match[0]}'; write: {RETIRED_PHRASES[match[0]]}"
        for place, text in texts()
        for match in RETIRED_PHRASE.finditer(text.lower())
    ]

    assert found == []


def test_what_something_is_not_is_said_in_full() -> None:
    found = [f"{place}: …{match[0]}…" for place, text in texts() for match in IS_NO.finditer(text)]

    assert found == []


def test_retired_names_do_not_come_back() -> None:
    this = Path(__file__).resolve()
    texts = {file: file.read_text(encoding="utf-8") for file in SOURCES if file != this}
    found = [
        f"{file.relative_to(ROOT)}: {match[0]} is {RETIRED_NAMES[match[0]]} now"
        for file, text in texts.items()
        for match in RETIRED_NAME.finditer(f"{file.stem}\n{text}")
    ]

    assert found == []


def is_shipped(file: Path) -> bool:
    """Return whether a file belongs to a shipped agent or tool file: programs of their own."""
    return file.relative_to(ROOT).parts[:2] in (("graphs", "agents"), ("graphs", "functions"))


def test_one_class_name_means_one_thing() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for file in PRODUCT:
        if file.suffix == ".py" and not is_shipped(file):
            for name in re.findall(r"^class ([A-Z]\w*)", file.read_text("utf-8"), re.M):
                homes[name].append(str(file.relative_to(ROOT)))

    assert {name: files for name, files in homes.items() if len(files) > 1} == {}
