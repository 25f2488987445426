"""The report as Markdown, and a brief for the model that holds no line of the log itself."""

import os
import re
from typing import Any

from node import emit, read_state

BAR = 24
# Words that do not tell one family from another.
COMMON = frozenset(("and", "could", "error", "failed", "for", "from", "not", "that", "the", "this"))


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def code(text: str) -> str:
    """Inline code, whatever backticks the text holds."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}text\n{text}\n{fence}"


def where(place: dict[str, Any]) -> str:
    time = f", {place['time']}" if place["time"] else ""
    return f"line {place['line']:,}{time}"


def severity_table(severities: dict[str, int]) -> str:
    rows = [f"| {name} | {count:,} |" for name, count in severities.items() if count]
    return "\n".join(["| severity | entries |", "|---|---:|", *rows])


def words(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z]{3,}", text.lower()) if word not in COMMON}


def fitting_pages(state: dict[str, Any]) -> dict[str, str]:
    """Of each family the page of the runbook that was found for it, if it shares enough words."""
    pages = {}
    for shape, found in zip(state.get("shapes", []), state.get("pages", []), strict=False):
        said = words(re.sub(r"<\w+>", "", shape))
        if len(said & words(found["context"])) >= min(2, len(said) or 1):
            pages[shape] = advice(found)
    return pages


def advice(found: dict[str, Any]) -> str:
    """A page's title and its first paragraph."""
    _, _, page = found["context"].partition("\n")  # its first line is the source
    title, _, text = page.partition("\n\n")
    paragraph = text.strip().partition("\n\n")[0]
    return f"> **{title.lstrip('# ')}.** {paragraph} ({found['sources'][0]})"


def family_section(rank: int, known: dict[str, Any], pages: dict[str, str]) -> str:
    times = "once" if known["count"] == 1 else f"{known['count']:,} times"
    seen = f"First: {where(known['first'])}. Last: {where(known['last'])}."
    title = f"### {rank}. {code(known['family'])}\n\n{known['severity'].capitalize()}, {times}."
    samples = [fenced(sample) for sample in known["samples"].values()]
    page = [pages[known["family"]]] if known["family"] in pages else []
    return "\n\n".join([f"{title} {seen}", *page, *samples])


def timeline_section(timeline: dict[str, Any]) -> str:
    minutes = timeline["minutes"]
    most = max(minute["entries"] for minute in minutes)
    rows = ["| minute | entries | errors | |", "|---|---:|---:|---|"]
    for minute in minutes:
        bar = "█" * max(1, round(BAR * minute["entries"] / most))
        rows.append(f"| {minute['minute']} | {minute['entries']} | {minute['errors']} | {bar} |")
    span = f"The log runs from {timeline['first']} to {timeline['last']}."
    return f"{span} Its worst minutes, by errors and then by entries:\n\n" + "\n".join(rows)


def list_section(families: list[dict[str, Any]], shown: int, pages: dict[str, str]) -> str:
    left = len(families) - shown
    ranked = enumerate(families[:shown], 1)
    sections = [family_section(rank, known, pages) for rank, known in ranked]
    if left > 0:
        rest = sum(known["count"] for known in families[shown:])
        sections.append(f"Not shown: {plural(left, 'more shape')}, seen {plural(rest, 'time')}.")
    return "\n\n".join(sections)


def report_parts(state: dict[str, Any], shown: int) -> list[tuple[str, str]]:
    """(heading, text) of every section that has something to say."""
    digest, timeline = state["digest"], state.get("timeline") or {}
    pages = fitting_pages(state)
    errors = [known for known in digest["families"] if known["severity"] != "warning"]
    warnings = [known for known in digest["families"] if known["severity"] == "warning"]
    return [
        ("Totals", severity_table(digest["severities"])),
        ("Worth a look", "\n".join(f"- {remark}" for remark in state["observations"])),
        ("Error families", list_section(errors, shown, pages) or "No errors."),
        ("Warning families", list_section(warnings, shown, pages)),
        ("Busiest minutes", timeline_section(timeline) if timeline.get("minutes") else ""),
    ]


def brief(state: dict[str, Any], shown: int) -> str:
    """What the model gets to read: shapes and counts, no line of the log."""
    digest = state["digest"]
    families = [
        f"{known['count']} x {known['severity']}: {known['family']} "
        f"(first {known['first']['time']}, last {known['last']['time']})"
        for known in digest["families"][:shown]
    ]
    totals = [f"{name}: {count}" for name, count in digest["severities"].items() if count]
    return "\n".join([*totals, "", *families, "", *state["observations"]])


state = read_state()
# Variables reach scripts through the environment, always as text.
shown = int(os.environ.get("LLM_AGENT_VAR_FAMILIES") or 10)
digest = state["digest"]
intro = (
    f"{plural(digest['lines'], 'line')}, {digest['entries']:,} entries, "
    f"read in {plural(len(state['chunks']), 'chunk')}."
)
sections = [f"## {heading}\n\n{text}" for heading, text in report_parts(state, shown) if text]
emit(
    report="\n\n".join([f"{code(state['log']['name'])}: {intro}", *sections]),
    brief=brief(state, shown),
)
