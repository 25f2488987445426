"""Put the chunks' digests together to one."""

import os
from collections import Counter
from typing import Any

from logformat import SEVERITIES
from node import emit, read_state

SAMPLES = 2


def merge_families(digests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One record per family, the most frequent first. The digests come in file order."""
    merged: dict[tuple[str, str], dict[str, Any]] = {}
    for part in (part for digest in digests for part in digest["families"]):
        known = merged.setdefault((part["severity"], part["family"]), part | {"count": 0})
        known["count"] += part["count"]
        known["last"] = part["last"]
        for gist, sample in part["samples"].items():
            if len(known["samples"]) < SAMPLES:
                known["samples"].setdefault(gist, sample)
    return sorted(merged.values(), key=lambda known: (-known["count"], known["first"]["line"]))


def observe(families: list[dict[str, Any]], undescribed: int) -> list[str]:
    remarks = []
    errors = [known for known in families if known["severity"] != "warning"]
    total = sum(known["count"] for known in errors)
    if len(errors) > 1 and errors[0]["count"] * 2 >= total:
        share = 100 * errors[0]["count"] / total
        remarks.append(f"One family makes up {share:.0f} % of all errors: {errors[0]['family']}")
    if undescribed:
        remarks.append(f"{undescribed} errors or warnings of rare families are counted only.")
    return remarks


digests = read_state()["chunk_digests"]
severities: Counter[str] = Counter()
for digest in digests:
    severities.update(digest["severities"])
families = merge_families(digests)
shown = int(os.environ.get("LLM_AGENT_VAR_FAMILIES") or 10)
errors = [known["family"] for known in families if known["severity"] != "warning"]
warnings = [known["family"] for known in families if known["severity"] == "warning"]
emit(
    digest={
        "lines": sum(digest["lines"] for digest in digests),
        "entries": severities.total(),
        "severities": {name: severities[name] for name in (*SEVERITIES, "unknown")},
        "families": families,
    },
    # What the report shows, to be looked up in the runbook.
    shapes=list(dict.fromkeys([*errors[:shown], *warnings[:shown]])),
    # A write like any other for the script; the reducer adds it to what the list holds.
    observations=observe(families, sum(digest["undescribed"] for digest in digests)),
)
