"""One invocation of the map: count the entries of one chunk and sort them into families."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from entries import Entry, entries
from families import family
from node import emit, read_state
from source import lines

# What one chunk may report; the rest is counted, not described.
MOST_FAMILIES = 60
SAMPLES = 2
DESCRIBED = ("critical", "error", "warning")


def place(entry: Entry) -> dict[str, Any]:
    return {"line": entry.number, "time": entry.line.time}


def counted(numbered: Iterable[tuple[int, str]], read: Counter[str]) -> Iterator[str]:
    for _, text in numbered:
        read["lines"] += 1
        yield text


def digest(log: dict[str, Any], chunk: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Totals by severity, and each family with its count, places and a sample."""
    read: Counter[str] = Counter()
    severities: Counter[str] = Counter()
    families: dict[tuple[str, str], dict[str, Any]] = {}
    texts = counted(lines(log, state, chunk["start"], chunk["end"]), read)
    for entry in entries(texts, log["headed"], chunk["first_line"]):
        severities[entry.severity] += 1
        if entry.severity in DESCRIBED:
            key = (entry.severity, family(entry.gist))
            if key not in families:
                families[key] = {"count": 0, "first": place(entry), "last": {}, "samples": {}}
            families[key]["count"] += 1
            families[key]["last"] = place(entry)
            # Two samples that differ in more than their time, if there are.
            if len(families[key]["samples"]) < SAMPLES:
                families[key]["samples"].setdefault(entry.gist[:200], entry.sample())
    ranked = sorted(families.items(), key=lambda item: -item[1]["count"])
    return {
        "lines": read["lines"],
        "severities": severities,
        "families": [
            {"severity": severity, "family": name, **facts}
            for (severity, name), facts in ranked[:MOST_FAMILIES]
        ],
        "undescribed": sum(facts["count"] for _, facts in ranked[MOST_FAMILIES:]),
    }


state = read_state()
# `output` is what the map collects.
emit(output=digest(state["log"], state["chunk"], state))
