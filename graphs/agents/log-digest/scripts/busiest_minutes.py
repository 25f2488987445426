"""Entries and errors per minute, over the whole log; runs beside the map."""

from collections import Counter

from entries import entries
from node import emit, read_state
from source import lines

SHOWN = 12

state = read_state()
log = state["log"]
logged: Counter[str] = Counter()
failed: Counter[str] = Counter()
untimed = 0
for entry in entries((text for _, text in lines(log, state)), log["headed"]):
    # Syslog's own times lack the year: cut the seconds, not a fixed length.
    minute = entry.line.time[:-3]
    if not minute:
        untimed += 1
        continue
    logged[minute] += 1
    failed[minute] += entry.severity in ("critical", "error")

busiest = sorted(logged, key=lambda minute: (-failed[minute], -logged[minute], minute))[:SHOWN]
remarks = []
if busiest and failed[busiest[0]] > 1:
    share = 100 * failed[busiest[0]] / failed.total()
    remarks.append(
        f"The worst minute was {busiest[0]}: {failed[busiest[0]]} errors, "
        f"{share:.0f} % of all errors of the log."
    )
if logged and untimed:
    remarks.append(f"{untimed} entries carry no time; the timeline leaves them out.")
emit(
    timeline={
        "first": min(logged, default=""),
        "last": max(logged, default=""),
        "minutes": [
            {"minute": minute, "entries": logged[minute], "errors": failed[minute]}
            for minute in sorted(busiest)
        ],
        "remarks": remarks,
    }
)
