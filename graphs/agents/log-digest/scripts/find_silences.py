"""When did the log fall silent, and did its clock go backwards? Runs beside the map."""

import heapq
from datetime import datetime

from entries import entries
from node import emit, read_state
from source import lines

SHOWN = 3
# A silence is a gap of at least a minute that is also long compared with the usual gap.
SHORTEST_S = 60
TIMES_THE_USUAL = 20


def seconds_of(time: str) -> float:
    # Syslog's own times lack the year; any leap year will do to measure a gap.
    full = time if time[4:5] == "-" else f"2000-{time}"
    return datetime.fromisoformat(f"{full}+00:00").timestamp()


def duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


state = read_state()
log = state["log"]
gaps: list[tuple[float, str, str]] = []
before, before_s = "", 0.0
count, span, backwards = 0, 0.0, 0
for entry in entries((text for _, text in lines(log, state)), log["headed"]):
    time = entry.line.time
    if not time:
        continue
    count += 1
    if time == before:
        continue
    try:
        now_s = seconds_of(time)
    except ValueError:
        continue  # the 31st of February: shaped like a time, but none
    if before:
        gap = now_s - before_s
        span += max(gap, 0)
        backwards += gap < -1
        if gap >= SHORTEST_S:
            heapq.heappush(gaps, (gap, before, time))
            if len(gaps) > SHOWN:
                heapq.heappop(gaps)  # the shortest of them
    before, before_s = time, now_s

usual = span / max(count - 1, 1)
remarks = [
    f"Silent for {duration(gap)}, from {start} to {end}."
    for gap, start, end in sorted(gaps, reverse=True)
    if gap >= usual * TIMES_THE_USUAL
]
if backwards:
    remarks.append(f"Time goes backwards {backwards} times: several clocks, or a restart.")
emit(silences={"remarks": remarks})
